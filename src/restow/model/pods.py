"""Facts about single pods: their controller and scheduler, and whether they are pending, ready or finished."""

from __future__ import annotations

from collections.abc import Iterable

from restow.model.objects import Condition, Object, OwnerReference, Pod

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""On a pod: workload controllers that shrink delete the pods of lower cost first."""
MIRROR = "kubernetes.io/config.mirror"
"""On the mirror pod of a static pod."""
DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""


def controller_of(item: Object) -> OwnerReference | None:
    """The owner that manages an object."""
    for owner in item.metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def namespaced_name(item: Object) -> tuple[str, str]:
    """The namespace and the name of a namespaced object; in a file, a missing namespace means default."""
    return item.metadata.namespace or "default", item.metadata.name


def scheduler_of(pod: Pod) -> str:
    """The name of the scheduler that a pod belongs to."""
    return pod.spec.scheduler_name or DEFAULT_SCHEDULER


def is_of_daemon_set(pod: Pod) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.kind == "DaemonSet"


def stays_with_node(pod: Pod) -> bool:
    """Whether a pod belongs to its node and would come back there: of a DaemonSet, or the mirror of a static one."""
    return MIRROR in (pod.metadata.annotations or {}) or is_of_daemon_set(pod)


def find_condition(conditions: Iterable[Condition] | None, kind: str) -> Condition | None:
    return next((each for each in conditions or () if each.type == kind), None)


def ready_condition(pod: Pod) -> Condition | None:
    condition = find_condition(pod.status.conditions, "Ready")
    return condition if condition and condition.status == "True" else None


def is_ready(pod: Pod) -> bool:
    return ready_condition(pod) is not None


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_pending(pod: Pod) -> bool:
    """Whether it waits for a node."""
    return not pod.spec.node_name and not is_finished(pod) and not is_terminating(pod)


def is_serving(pod: Pod) -> bool:
    """Whether it is running and ready; without a Ready condition it counts as ready."""
    ready = find_condition(pod.status.conditions, "Ready")
    return pod.status.phase == "Running" and (ready is None or ready.status == "True")


def is_available(pod: Pod) -> bool:
    """Whether it is serving and not being deleted."""
    return is_serving(pod) and not is_terminating(pod)
