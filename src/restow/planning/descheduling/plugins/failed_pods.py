"""RemoveFailedPods: pods that failed and lie about, so that their workload makes others in their place.

args: {reasons: [NodeAffinity], exitCodes: [1], includingInitContainers: false, excludeOwnerKinds: [Job],
       minPodLifetimeSeconds: 3600}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from restow.model.object_key import key_of
from restow.model.objects import Pod
from restow.model.problems import Problem
from restow.planning.descheduling.framework import Removal, Remover
from restow.planning.descheduling.plugins.candidates import CandidateArguments, creation_time, read_plugin_arguments
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


def choose(pods: Iterable[Pod], request: PlanRequest) -> Iterator[Removal]:
    arguments = read_plugin_arguments(FailedPodsArgs, request.arguments, NAME)
    scope, least = arguments.pod_filter(), arguments.min_pod_lifetime_seconds or 0
    for pod in sorted(pods, key=key_of):
        owners = {owner.kind for owner in pod.metadata.owner_references or ()}
        if pod.status.phase != "Failed" or scope.refusal_reason(pod) or owners & set(arguments.exclude_owner_kinds):
            continue
        if request.now - creation_time(pod) < least:
            continue
        said, codes = _endings(pod, arguments)
        if arguments.reasons and not said & set(arguments.reasons):
            continue
        if arguments.exit_codes and not codes & set(arguments.exit_codes):
            continue
        yield Removal(pod, f"it failed: {', '.join(sorted(said)) or 'nobody says why'}")


def _endings(pod: Pod, arguments: FailedPodsArgs) -> tuple[set[str], set[int]]:
    """The reasons that are told, and the exit codes of its containers."""
    said = {pod.status.reason} if pod.status.reason else set()
    codes: set[int] = set()
    for one in container_statuses(pod, init=arguments.including_init_containers):
        said |= set(state_reasons(one))
        ended = one.state.terminated if one.state else None
        codes |= {ended.exit_code} if ended and ended.exit_code is not None else set()
    return said, codes


PLUGIN = Remover(name=NAME, choose=choose, check=lambda written: read_plugin_arguments(FailedPodsArgs, written, NAME))
