"""The consumers of seats: the one place that knows them, until the status of the reservation records them.

Two questions are answered from what is kept here, by the same rules (`consumer_rules`):

    occupant_of   the pod on a node that takes the room of an open seat now. It is undone with the snapshot.
    consumer_of   the pod to be recorded as the consumer of a seat, which may be over, or gone, by now.

The second needs a memory that the snapshot does not have: a seat must be recorded as consumed even if its pod is gone
before that is written, or another pod would consume it once more. Only the scheduler, which assigns and records, feeds
that memory, by `bound`, `pod_shown` and `pod_gone`. It is evidence of what happened, so no try takes it back:

    shown      bound pods that name the seat, running or finished, as they were first shown: a binding is final
    departed   pods that were shown so, and deleted before the consumption of the seat was recorded
    binding    the pod that this scheduler bound into the seat: it comes before all others
    vanished   that pod, deleted before any event showed it: it is believed without an annotation

It does not matter that a seat is taken away meanwhile: the reservation may ask for a seat of the same name again, and
the pod that consumed it has it then, wherever that is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from restow.model.cluster.known_pods import KnownPods
from restow.model.cluster.occupancy import Occupant
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.undo_log import UndoLog
from restow.model.object_key import Key
from restow.model.objects import Pod, Reservation
from restow.model.reservations.assigned_seats import AssignedSeats
from restow.model.reservations.consumer_rules import ConsumerRules
from restow.model.reservations.placements import Placements
from restow.model.reservations.reservation_annotations import named_seat
from restow.model.reservations.seat import Seat
from restow.model.reservations.seat_name import SeatName


class _Evidence(msgspec.Struct):
    """What the scheduler has seen of pods that consumed one seat; see the top of this module."""

    shown: dict[str, Pod] = {}
    """By the UID of the pod."""
    departed: dict[str, Pod] = {}
    """By the UID of the pod."""
    binding: tuple[str, str] | None = None
    """The UIDs of the pod and of the reservation."""
    vanished: tuple[str, Pod] | None = None
    """With the UID of the reservation."""

    def names_a_pod(self) -> bool:
        return bool(self.shown or self.departed or self.vanished)


class SeatConsumers:
    def __init__(self, log: UndoLog, placements: Placements, pods: KnownPods, owner_chains: OwnerChains) -> None:
        self._log = log
        self._reservations = placements.known
        self._seats = placements.seats
        self._pods = pods
        self.assigned = AssignedSeats(log)
        self.rules = ConsumerRules(placements, pods, owner_chains, self.assigned)
        self._naming: dict[SeatName, frozenset[str]] = {}
        self.naming: Mapping[SeatName, frozenset[str]] = self._naming
        """The UIDs of the pods on nodes that are assumed in a seat or name it, rightly or not."""
        self._closed: dict[SeatName, None] = {}
        self.closed: Collection[SeatName] = self._closed.keys()
        """Seats with a consumer that is gone, until the status records it; whether the seats are there or not."""
        self._evidence: dict[Key, dict[SeatName, _Evidence]] = {}
        self._seat_of: dict[str, SeatName] = {}
        """The seat that a pod was first shown in, by the UID of the pod."""
        self._unseen: dict[str, tuple[SeatName, Pod]] = {}
        """Pods that this scheduler bound and no event has shown since, by UID."""

    # --- the pod in a seat now ----------------------------------------------------------------------------------------

    def occupant_of(self, name: SeatName) -> Occupant | None:
        """The pod that takes the room of an open seat."""
        seat = self._seats.get(name)
        if seat is None or not seat.is_open:
            return None
        for uid in sorted(self._naming.get(name, ())):
            if self.rules.may_occupy(seat, self._pods.known[uid]):
                return self._pods.known[uid]
        return None

    def is_given(self, name: SeatName) -> bool:
        """Whether a seat of this name must not be placed: it is there, or a pod was given it or has consumed it, and
        no status says so yet."""
        if name in self._seats or name in self._closed:
            return True
        return any(self.rules.keeps_seat(self._pods.known[uid], name) for uid in self._naming.get(name, ()))

    # --- the consumer to be recorded ----------------------------------------------------------------------------------

    def consumer_of(self, name: SeatName) -> Pod | None:
        """The pod that consumed a seat, there or gone: of several that name it, the one that this scheduler bound,
        else the oldest."""
        evidence = self._evidence.get((name.namespace, name.reservation), {}).get(name)
        if evidence is None:
            return None
        reservation = self._reservations.get((name.namespace, name.reservation))
        if evidence.vanished is not None and reservation is not None:
            reservation_uid, pod = evidence.vanished
            if reservation_uid == reservation.metadata.uid:
                return pod
        bound_here = evidence.binding[0] if evidence.binding is not None else ""
        pods = [*evidence.shown.values(), *evidence.departed.values()]
        if len(pods) > 1:
            pods.sort(
                key=lambda pod: (
                    pod.metadata.uid != bound_here,
                    pod.metadata.creation_timestamp or "",
                    pod.metadata.uid,
                )
            )
        rules = self.rules
        consumers = (
            pod for pod in pods if rules.has_consumed(pod, name, was_bound_here=pod.metadata.uid == bound_here)
        )
        return next(consumers, None)

    def is_recorded(self, name: SeatName) -> bool:
        """Whether the status records the consumer of a seat, or the reservation is gone: nothing is left to record."""
        seat = self._seats.get(name)
        if seat is not None:
            return seat.recorded_consumer is not None
        return (name.namespace, name.reservation) not in self._reservations

    def was_bound_here(self, name: SeatName) -> bool:
        """Whether this scheduler has bound a pod into a seat, which no status records yet."""
        evidence = self._evidence.get((name.namespace, name.reservation), {}).get(name)
        return evidence is not None and evidence.binding is not None

    def consumed_seats(self, namespace: str, reservation: str) -> list[SeatName]:
        """The seats of a reservation that pods say they consumed, whether the seats are there or not, sorted."""
        known = self._evidence.get((namespace, reservation), {})
        return sorted(name for name, evidence in known.items() if evidence.names_a_pod())

    def seat_of(self, pod: Pod) -> SeatName | None:
        """The seat that a pod was first shown in."""
        return self._seat_of.get(pod.metadata.uid)

    # --- what happens in the snapshot (undoable) ----------------------------------------------------------------------

    def pod_changed(self, uid: str, before: Occupant | None, after: Occupant | None) -> None:
        """A pod came to a node, changed or went: it may be on its way to a seat, have arrived, or name another."""
        self.assigned.pod_changed(uid, before, after, self._seats)
        left, entered = before.seat if before else None, after.seat if after else None
        if left == entered:
            return
        if left:
            others = self._naming[left] - {uid}
            if others:
                self._log.put(self._naming, left, others)
            else:
                self._log.drop(self._naming, left)
        if entered:
            self._log.put(self._naming, entered, self._naming.get(entered, frozenset()) | {uid})

    def assign(self, name: SeatName, uid: str) -> None:
        """A pod is assumed in a seat that no other pod names."""
        self.assigned.assign(uid, self._seats[name].reservation_uid)
        self._log.put(self._naming, name, frozenset((uid,)))

    def close(self, name: SeatName) -> None:
        """The consumer of a seat is gone: until the status records it, the seat is for no pod."""
        self._log.put(self._closed, name, None)

    def seat_shown(self, seat: Seat) -> None:
        """A status shows a seat. If it records the consumer, no pod needs to be remembered for it."""
        if seat.recorded_consumer is not None:
            self._log.drop(self._closed, seat.name)
            self.assigned.end(seat.recorded_consumer)

    def reservation_replaced(self, reservation: Reservation) -> None:
        """A reservation is gone, or another one has its name: its closed seats are gone with it."""
        metadata = reservation.metadata
        key = metadata.namespace or "", metadata.name
        for name in [closed for closed in self._closed if (closed.namespace, closed.reservation) == key]:
            self._log.drop(self._closed, name)

    # --- what the scheduler has seen (never undone) -------------------------------------------------------------------

    def bound(self, pod: Pod, node: str, seat: SeatName, reservation_uid: str) -> None:
        """This scheduler bound a pod into a seat of the reservation with this UID."""
        uid, evidence = pod.metadata.uid, self._evidence_of(seat)
        evidence.binding = (uid, reservation_uid)
        if uid not in evidence.shown:
            self._unseen[uid] = (seat, replace(pod, spec=replace(pod.spec, node_name=node)))

    def pod_shown(self, pod: Pod) -> SeatName | None:
        """The API shows a pod, running or finished; returns the seat that it was not known to have consumed."""
        uid = pod.metadata.uid
        if not pod.spec.node_name or uid in self._seat_of:
            return None
        self._unseen.pop(uid, None)
        seat = named_seat(pod) if pod.metadata.annotations else None
        if seat is not None:
            self._seat_of[uid] = seat
            self._evidence_of(seat).shown[uid] = pod
        return seat

    def pod_gone(self, pod: Pod) -> SeatName | None:
        """A pod was deleted; returns the seat that it had consumed, which is remembered unless it is recorded."""
        uid = pod.metadata.uid
        if uid in self._unseen:  # bound here and gone before any event showed it: the annotation was never seen
            seat, bound = self._unseen.pop(uid)
            evidence = self._evidence.get((seat.namespace, seat.reservation), {}).get(seat)
            if evidence is not None and evidence.binding is not None and evidence.binding[0] == uid:
                evidence.vanished = (evidence.binding[1], bound)
            return seat
        self.pod_shown(pod)  # the deletion may be the first event about the pod
        consumed = self._seat_of.pop(uid, None)
        if consumed is not None:
            evidence = self._evidence_of(consumed)
            last = evidence.shown.pop(uid)
            if not self.is_recorded(consumed):
                evidence.departed[uid] = last
            self._drop_if_empty(consumed)
        return consumed

    def recorded(self, name: SeatName) -> None:
        """The status records the consumer of a seat: no evidence is needed but the pods that are there."""
        evidence = self._evidence.get((name.namespace, name.reservation), {}).get(name)
        if evidence is not None:
            evidence.binding = evidence.vanished = None
            evidence.departed.clear()
            self._drop_if_empty(name)

    def reservation_gone(self, namespace: str, reservation: str) -> None:
        """A reservation was deleted, and with it whatever was to be recorded; the pods that are there stay known."""
        known = self._evidence.pop((namespace, reservation), {})
        left = {name: _Evidence(shown=evidence.shown) for name, evidence in known.items() if evidence.shown}
        if left:
            self._evidence[namespace, reservation] = left

    def _evidence_of(self, name: SeatName) -> _Evidence:
        return self._evidence.setdefault((name.namespace, name.reservation), {}).setdefault(name, _Evidence())

    def _drop_if_empty(self, name: SeatName) -> None:
        key = (name.namespace, name.reservation)
        evidence = self._evidence[key][name]
        if evidence.binding is None and not evidence.names_a_pod():
            del self._evidence[key][name]
            if not self._evidence[key]:
                del self._evidence[key]
