"""States: pods as their phase, their reason and their containers say they are.

A state is a phase (Running), the reason of a pod (NodeAffinity) or what a container waits for or ended with
(CrashLoopBackOff, OOMKilled).
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.objects import ContainerStatus, Pod
from restow.planning.descheduling.plugins.candidates import CandidateArguments


class StateArguments(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    states: tuple[str, ...] = ()
    """Only pods in one of these; in any if there are none."""
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False


def is_in_state(pod: Pod, arguments: StateArguments) -> bool:
    """Whether a pod is in one of the states."""
    if not arguments.states:
        return True
    said = {pod.status.phase, pod.status.reason}
    for one in container_statuses(
        pod, init=arguments.including_init_containers, ephemeral=arguments.including_ephemeral_containers
    ):
        said |= set(state_reasons(one))
    return any(state in said for state in arguments.states)


def container_statuses(pod: Pod, *, init: bool, ephemeral: bool = False) -> Iterator[ContainerStatus]:
    yield from pod.status.container_statuses or ()
    if init:
        yield from pod.status.init_container_statuses or ()
    if ephemeral:
        yield from pod.status.ephemeral_container_statuses or ()


def state_reasons(one: ContainerStatus) -> Iterator[str]:
    """Why a container waits, or why it ended."""
    state = one.state
    for each in (state.waiting, state.terminated) if state is not None else ():
        if each is not None and each.reason:
            yield each.reason
