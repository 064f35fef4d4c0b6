"""RemoveFailedPods: removes failed pods, so that their workload creates others instead.

args: {reasons: [NodeAffinity], exitCodes: [1], includingInitContainers: false, excludeOwnerKinds: [Job],
       minPodLifetimeSeconds: 3600}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from restow.model.object_key import key_of
from restow.model.objects import Pod
from restow.model.problems import Problem
from restow.planning.descheduling.framework import PodRemoval, Remover
from restow.planning.descheduling.plugins.candidates import (
    CandidateArguments,
    arguments_check,
    creation_time,
    read_plugin_arguments,
)
from restow.planning.descheduling.plugins.pod_states import container_statuses, state_reasons
from restow.planning.plan_request import PlanRequest

NAME = "RemoveFailedPods"


class FailedPodsArgs(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    exclude_owner_kinds: tuple[str, ...] = ()
    min_pod_lifetime_seconds: int | None = None
    reasons: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    including_init_containers: bool = False

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        if (self.min_pod_lifetime_seconds or 0) < 0:
            yield Problem("minPodLifetimeSeconds", f"must not be negative, is {self.min_pod_lifetime_seconds}")


def choose_removals(pods: Iterable[Pod], request: PlanRequest) -> Iterator[PodRemoval]:
    arguments = read_plugin_arguments(FailedPodsArgs, request.arguments, NAME)
    pod_filter, min_age = arguments.pod_filter(), arguments.min_pod_lifetime_seconds or 0
    for pod in sorted(pods, key=key_of):
        owner_kinds = {owner.kind for owner in pod.metadata.owner_references or ()}
        if pod.status.phase != "Failed" or pod_filter.refusal_reason(pod):
            continue
        if owner_kinds & set(arguments.exclude_owner_kinds) or request.now - creation_time(pod) < min_age:
            continue
        reasons, exit_codes = _reasons_and_exit_codes(pod, arguments)
        if arguments.reasons and not reasons & set(arguments.reasons):
            continue
        if arguments.exit_codes and not exit_codes & set(arguments.exit_codes):
            continue
        yield PodRemoval(pod, f"it failed: {', '.join(sorted(reasons)) or 'no reason is given'}")


def _reasons_and_exit_codes(pod: Pod, arguments: FailedPodsArgs) -> tuple[set[str], set[int]]:
    """Of the pod and its containers."""
    reasons = {pod.status.reason} if pod.status.reason else set()
    exit_codes: set[int] = set()
    for status in container_statuses(pod, init=arguments.including_init_containers):
        reasons |= set(state_reasons(status))
        terminated = status.state.terminated if status.state else None
        if terminated and terminated.exit_code is not None:
            exit_codes.add(terminated.exit_code)
    return reasons, exit_codes


PLUGIN = Remover(name=NAME, choose=choose_removals, check=arguments_check(FailedPodsArgs, NAME))
