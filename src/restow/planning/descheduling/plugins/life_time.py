"""PodLifeTime: pods that are older than they should get, the oldest first.

args: {maxPodLifeTimeSeconds: 86400, states: [Running]}
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.cluster import Snapshot
from restow.model.problems import Problem
from restow.planning.bookings import Bookings
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.departing import Departure, created, depart, lodgers, read
from restow.planning.descheduling.plugins.states import StateArguments, is_in
from restow.planning.plan import Plan
from restow.planning.request import Request

NAME = "PodLifeTime"


class LifeTimeArgs(StateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    max_pod_life_time_seconds: int = 0

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.max_pod_life_time_seconds < 1:
            yield Problem("maxPodLifeTimeSeconds", "a number above 0 is needed")


def plan(snapshot: Snapshot, request: Request) -> Plan:
    arguments = read(LifeTimeArgs, request.arguments, NAME)
    most = arguments.max_pod_life_time_seconds

    def search(bookings: Bookings) -> Iterator[Departure]:
        for one in sorted(lodgers(snapshot, arguments.pods()), key=lambda each: created(each.pod)):
            age = request.now - created(one.pod)
            if one.pod.metadata.creation_timestamp and age > most and is_in(one.pod, arguments):
                yield Departure(one, f"is {age:.0f}s old, and maxPodLifeTimeSeconds is {most}")

    return depart(NAME, snapshot, request, search)


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan, check=lambda written: read(LifeTimeArgs, written, NAME))
