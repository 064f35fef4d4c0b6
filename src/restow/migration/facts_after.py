"""Facts after the eviction: the migrating pod is terminating or gone, and its successor is looked for.

Goes in: facts as they were read. Comes out: which pod is the successor. A job's own reservation has one seat, so its
consumer is the successor; of a reservation that a user gave to several jobs, only a consumer that was created after the
eviction, and belongs to no other job, can be.
"""

from __future__ import annotations

from collections.abc import Iterator

from restow.migration.conditions import find_condition
from restow.migration.facts import Facts, narrow_facts
from restow.migration.reservation import reservation_name
from restow.model.objects import JobConditionType, ObjectReference, Pod
from restow.model.reservations.observed_spec import is_being_deleted
from restow.model.reservations.reservation_annotations import named_seat
from restow.model.times import time_of

SKEW = 10.0
"""Seconds by which our clock may be ahead of the API server's, which sets creation timestamps, in whole seconds."""
_SEAT_KEPT_SINCE = (JobConditionType.RESERVATION_SCHEDULED, JobConditionType.EVICTION)
"""The conditions that tell since when a seat was kept: Eviction changes once more, when the pod is gone."""


class FactsAfterEviction(Facts, frozen=True, kw_only=True):
    """The migrating pod is terminating or gone: we evicted it, or another client deleted it."""

    @classmethod
    def of(cls, facts: Facts) -> FactsAfterEviction:
        return narrow_facts(facts, FactsAfterEviction)

    @property
    def is_gone(self) -> bool:
        return self.migrating_pod is None

    @property
    def successor_reference(self) -> ObjectReference | None:
        """The pod that took the migrating pod's seat, by name and UID; None while none has."""
        if self.job.status.pod_ref is not None:
            return self.job.status.pod_ref
        return next(self._successors(), None)

    def find_consumer(self, reference: ObjectReference) -> Pod | None:
        """The pod that took the seat, while it exists."""
        return next((pod for pod in self.consumers if pod.metadata.uid == reference.uid), None)

    def _successors(self) -> Iterator[ObjectReference]:
        consumers = {pod.metadata.uid: pod for pod in self.consumers}
        for reference in self._consumer_references():
            if reference.uid == self.pod_uid or reference.uid in self.foreign_consumers:
                continue
            if self._owned_reservation or self._is_created_after_eviction(consumers.get(reference.uid or "")):
                yield reference

    @property
    def _owned_reservation(self) -> bool:
        """Whether the reservation is the job's own, or was while it existed."""
        named = self.reservation_reference.name if self.reservation_reference else None
        return self.owns_reservation or (self.reservation is None and named == reservation_name(self.job))

    def _consumer_references(self) -> Iterator[ObjectReference]:
        """The pods that took seats: as the reservation's status says; once it is gone or being deleted, also as the
        pods' annotations say, which were written when the pods were bound."""
        if self.reservation is not None:
            yield from (seat.pod_ref for seat in self.reservation.status.placements or () if seat.pod_ref is not None)
            if not is_being_deleted(self.reservation):
                return
        own = self.job.spec.pod_ref.namespace, self.reservation_reference.name if self.reservation_reference else None
        for pod in self.consumers:
            seat, meta = named_seat(pod), pod.metadata
            if seat is not None and pod.spec.node_name and (seat.namespace, seat.reservation) == own:
                yield ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)

    def _is_created_after_eviction(self, pod: Pod | None) -> bool:
        """Whether a pod was created after ours was evicted, or else after a seat was kept for it, as far as clocks
        tell: pods from before took seats that were not meant for this job. `foreign_consumers` has those that were
        seen in a seat when the eviction was recorded, where the clocks need not be trusted."""
        conditions = [
            condition for type in _SEAT_KEPT_SINCE if (condition := find_condition(self.job.status, type)) is not None
        ]
        sent = next(
            (time for condition in conditions if (time := time_of(condition.last_probe_time)) is not None), None
        )
        changed = (time for condition in conditions if (time := time_of(condition.last_transition_time)) is not None)
        since = min(changed, default=None) if sent is None else sent
        created = time_of(pod.metadata.creation_timestamp) if pod else None
        return since is not None and created is not None and created >= since - SKEW
