"""RemovePodsHavingTooManyRestarts: pods whose containers restart again and again where they are, the worst first.

args: {podRestartThreshold: 100, includingInitContainers: true, states: [CrashLoopBackOff]}
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.cluster import Snapshot
from restow.model.objects import Pod
from restow.model.problems import Problem
from restow.model.words import number_of
from restow.planning.bookings import Bookings
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.departing import Departure, depart, lodgers, read
from restow.planning.descheduling.plugins.states import StateArguments, containers, is_in
from restow.planning.plan import Plan
from restow.planning.request import Request

NAME = "RemovePodsHavingTooManyRestarts"


class RestartsArgs(StateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pod_restart_threshold: int = 0

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.pod_restart_threshold < 1:
            yield Problem("podRestartThreshold", "a number above 0 is needed")


def plan(snapshot: Snapshot, request: Request) -> Plan:
    arguments = read(RestartsArgs, request.arguments, NAME)

    def search(bookings: Bookings) -> Iterator[Departure]:
        counted = [(_restarts(one.pod, arguments), one) for one in lodgers(snapshot, arguments.pods())]
        for restarts, one in sorted(counted, key=lambda pair: -pair[0]):
            if restarts >= arguments.pod_restart_threshold and is_in(one.pod, arguments):
                yield Departure(one, f"was restarted {number_of(restarts, 'time')} on {one.node}")

    return depart(NAME, snapshot, request, search)


def _restarts(pod: Pod, arguments: RestartsArgs) -> int:
    return sum(one.restart_count or 0 for one in containers(pod, init=arguments.including_init_containers))


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan, check=lambda written: read(RestartsArgs, written, NAME))
