"""The states of pods, as their phase, their reason and their containers show them.

A state is a phase (Running), the reason of a pod (NodeAffinity) or what a container waits for or ended with
(CrashLoopBackOff, OOMKilled).
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.model.objects import ContainerStatus, Pod
from restow.planning.descheduling.plugins.candidates import CandidateArguments


class StateArguments(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    states: tuple[str, ...] = ()
    """Only pods in one of these states; pods in any state if there are none."""
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False


def is_in_state(pod: Pod, arguments: StateArguments) -> bool:
    """Whether a pod is in one of the states of the arguments."""
    if not arguments.states:
        return True
    states = {pod.status.phase, pod.status.reason}
    for status in container_statuses(
        pod, init=arguments.including_init_containers, ephemeral=arguments.including_ephemeral_containers
    ):
        states |= set(state_reasons(status))
    return any(state in states for state in arguments.states)


def container_statuses(pod: Pod, *, init: bool, ephemeral: bool = False) -> Iterator[ContainerStatus]:
    yield from pod.status.container_statuses or ()
    if init:
        yield from pod.status.init_container_statuses or ()
    if ephemeral:
        yield from pod.status.ephemeral_container_statuses or ()


def state_reasons(status: ContainerStatus) -> Iterator[str]:
    """Why a container waits, or why it has terminated."""
    state = status.state
    for detail in (state.waiting, state.terminated) if state is not None else ():
        if detail is not None and detail.reason:
            yield detail.reason
