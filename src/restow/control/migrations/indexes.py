"""Informer indexes: the values by which pods and jobs are looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from restow.migration.reservation import reservation_key
from restow.model.cluster.owner_chains import group_name
from restow.model.objects import ObjectReference, Pod, PodMigrationJob
from restow.model.reservations.reservation_annotations import named_seat


def pod_index_key(reference: ObjectReference) -> str:
    return f"{reference.namespace}/{reference.name}"


def by_uid(item: Any) -> Iterable[str]:
    return (item.metadata.uid,)


def by_pod(job: PodMigrationJob) -> Iterable[str]:
    """The migrating pod, and its successor."""
    references = (job.spec.pod_ref, job.status.pod_ref)
    namespace = job.spec.pod_ref.namespace
    return {f"{reference.namespace or namespace}/{reference.name}" for reference in references if reference is not None}


def by_reservation(job: PodMigrationJob) -> Iterable[str]:
    return ("/".join(reservation_key(job)),)


def by_seat(pod: Pod) -> Iterable[str]:
    """The reservation of which a bound pod has consumed a seat."""
    seat = named_seat(pod) if pod.spec.node_name else None
    return () if seat is None else (f"{seat.namespace}/{seat.reservation}",)


def by_gang(pod: Pod) -> Iterable[str]:
    gang = group_name(pod)
    return () if gang is None else (f"{pod.metadata.namespace}/{gang}",)


POD_INDEXES: Final[dict[str, Callable[[Pod], Iterable[str]]]] = {"uid": by_uid, "seat": by_seat, "gang": by_gang}
JOB_INDEXES: Final[dict[str, Callable[[PodMigrationJob], Iterable[str]]]] = {
    "uid": by_uid,
    "pod": by_pod,
    "reservation": by_reservation,
}
