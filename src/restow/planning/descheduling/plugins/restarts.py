"""RemovePodsHavingTooManyRestarts: moves pods with containers that restart again and again, those with
most restarts first.

args: {podRestartThreshold: 100, includingInitContainers: true, states: [CrashLoopBackOff]}
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.counted_nouns import counted_noun
from restow.model.objects import Pod
from restow.model.problems import Problem
from restow.model.snapshot import Snapshot
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.candidates import (
    Candidate,
    arguments_check,
    plan_candidates,
    pods_on_nodes,
    read_plugin_arguments,
)
from restow.planning.descheduling.plugins.pod_states import StateArguments, container_statuses, is_in_state
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest

NAME = "RemovePodsHavingTooManyRestarts"


class RestartsArgs(StateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pod_restart_threshold: int = 0

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.pod_restart_threshold < 1:
            yield Problem("podRestartThreshold", "a number above 0 is needed")


def plan_restarts(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(RestartsArgs, request.arguments, NAME)

    def find_candidates(simulation: MoveSimulation) -> Iterator[Candidate]:
        pods = pods_on_nodes(snapshot, arguments.pod_filter())
        counted = [(_restart_count(occupant.pod, arguments), occupant) for occupant in pods]
        for restarts, occupant in sorted(counted, key=lambda pair: -pair[0]):
            if restarts >= arguments.pod_restart_threshold and is_in_state(occupant.pod, arguments):
                yield Candidate(occupant, f"was restarted {counted_noun(restarts, 'time')} on {occupant.node}")

    return plan_candidates(NAME, snapshot, request, find_candidates)


def _restart_count(pod: Pod, arguments: RestartsArgs) -> int:
    statuses = container_statuses(pod, init=arguments.including_init_containers)
    return sum(status.restart_count or 0 for status in statuses)


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan_restarts, check=arguments_check(RestartsArgs, NAME))
