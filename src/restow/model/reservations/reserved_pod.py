"""The reserved pod of a seat: the pod that the seat is kept for, as it will look once it is created.

It takes the room of the seat in the snapshot and counts in every filter as the pod that will come. It never runs: its
UID is the name of the seat.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.model.cluster.owner_chains import GROUP_NAME_ANNOTATIONS
from restow.model.match_label_keys import fold_label_keys
from restow.model.objects import (
    ObjectMeta,
    Pod,
    TaskSpec,
)
from restow.model.queues import DEFAULT_QUEUE, QUEUE_ANNOTATION
from restow.model.reservations.seat_name import SeatName


def reserved_pod_of(name: SeatName, task: TaskSpec, scheduler: str | None, queue: str | None = None) -> Pod:
    """The reserved pod of a seat, made from the template of its task. It is charged to the queue of the reservation and
    belongs to no gang: the pod that comes may be of any."""
    template = task.template
    annotations = {
        key: value for key, value in (template.metadata.annotations or {}).items() if key not in GROUP_NAME_ANNOTATIONS
    }
    spec = replace(template.spec, node_name=None, scheduler_name=template.spec.scheduler_name or scheduler)
    return Pod(
        metadata=ObjectMeta(
            name=f"{name.reservation}-{name.task}-{name.index}",
            namespace=name.namespace,
            uid=str(name),
            labels=template.metadata.labels,
            annotations={**annotations, QUEUE_ANNOTATION: queue or DEFAULT_QUEUE},
        ),
        spec=fold_label_keys(spec, template.metadata.labels or {}),
    )


def is_reserved_pod(pod: Pod) -> bool:
    """Whether a pod is the reserved pod of a seat, and not one that the API server knows."""
    return "/" in pod.metadata.uid and SeatName.parse(pod.metadata.uid) is not None
