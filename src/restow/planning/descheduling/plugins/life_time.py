"""PodLifeTime: moves pods that are older than a limit, the oldest first.

args: {maxPodLifeTimeSeconds: 86400, states: [Running]}
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.problems import Problem
from restow.model.snapshot import Snapshot
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.candidates import (
    Candidate,
    arguments_check,
    creation_time,
    plan_candidates,
    pods_on_nodes,
    read_plugin_arguments,
)
from restow.planning.descheduling.plugins.pod_states import StateArguments, is_in_state
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest

NAME = "PodLifeTime"


class LifeTimeArgs(StateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    max_pod_life_time_seconds: int = 0

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if self.max_pod_life_time_seconds < 1:
            yield Problem("maxPodLifeTimeSeconds", "a number above 0 is needed")


def plan_life_time(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(LifeTimeArgs, request.arguments, NAME)
    limit = arguments.max_pod_life_time_seconds

    def find_candidates(simulation: MoveSimulation) -> Iterator[Candidate]:
        pods = pods_on_nodes(snapshot, arguments.pod_filter())
        for occupant in sorted(pods, key=lambda occupant: creation_time(occupant.pod)):
            pod = occupant.pod
            age = request.now - creation_time(pod)
            if pod.metadata.creation_timestamp and age > limit and is_in_state(pod, arguments):
                yield Candidate(occupant, f"is {age:.0f}s old, and maxPodLifeTimeSeconds is {limit}")

    return plan_candidates(NAME, snapshot, request, find_candidates)


PLUGIN = Planner(name=NAME, point="deschedule", plan=plan_life_time, check=arguments_check(LifeTimeArgs, NAME))
