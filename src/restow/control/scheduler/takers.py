"""Takers: which pods were bound into which seats, for as long as their reservations do not say so.

Goes in: pods as the API shows them, running or over, and what this scheduler bound itself. Comes out: who took a seat.
The snapshot forgets pods that are over; a seat that such a pod took must be marked all the same, or somebody else would
take it once more.

Which pods are believed, the book of reservations says. What this scheduler has bound is believed even if the pod is
gone before anything shows it there; and what it has seen is not forgotten with the pod, as long as the seat is not
marked. That the seat was taken away meanwhile changes nothing: it may be asked for again.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from restow.model.object_key import Key
from restow.model.cluster.owner_chains import group_name
from restow.model.reservations.reservation_index import ReservationIndex
from restow.model.kinds import POD_GROUP
from restow.model.objects import ObjectReference, Pod
from restow.model.reservations.reservation_annotations import named_seat
from restow.model.reservations.seat_name import SeatName


class _Seats(msgspec.Struct):
    """What is known of the seats of one reservation, by seat."""

    pods: dict[SeatName, dict[str, Pod]] = {}
    """Those that name it, by UID."""
    left: dict[SeatName, dict[str, Pod]] = {}
    """Those that did, and were gone before it was marked."""
    bound: dict[SeatName, tuple[str, str]] = {}
    """By us: the UID of the pod, and of the reservation."""
    gone: dict[SeatName, tuple[str, Pod]] = {}
    """Bound by us, and gone before anything showed them; with the UID of the reservation."""

    def names(self) -> list[SeatName]:
        return sorted({*self.pods, *self.left, *self.gone})


class Takers:
    def __init__(self, book: ReservationIndex) -> None:
        self._book = book
        self._known: dict[Key, _Seats] = {}
        self._seat_of: dict[str, SeatName] = {}
        self._unseen: dict[str, tuple[SeatName, Pod]] = {}
        """Bound by us and not shown since, by UID."""

    def bound(self, pod: Pod, node: str, seat: SeatName, life: str) -> None:
        """This scheduler bound a pod into a seat of a reservation with this UID."""
        uid, seats = pod.metadata.uid, self._seats(seat)
        seats.bound[seat] = (uid, life)
        if uid not in seats.pods.get(seat, {}):
            self._unseen[uid] = (seat, replace(pod, spec=replace(pod.spec, node_name=node)))

    def show(self, pod: Pod) -> SeatName | None:
        """A pod as it is; returns the seat that it was not known to have taken. A binding is final."""
        uid, notes = pod.metadata.uid, pod.metadata.annotations
        if not pod.spec.node_name or uid in self._seat_of:
            return None
        self._unseen.pop(uid, None)
        seat = named_seat(pod) if notes else None
        if seat is not None:
            self._seat_of[uid] = seat
            self._seats(seat).pods.setdefault(seat, {})[uid] = pod
        return seat

    def hide(self, pod: Pod) -> SeatName | None:
        """A pod is gone; returns the seat it had taken. Who took one that is not marked is remembered."""
        uid = pod.metadata.uid
        unseen = self._unseen.pop(uid, None)
        if unseen is not None:
            seat, bound = unseen
            known = self._known.get((seat.namespace, seat.reservation))
            by, life = known.bound.get(seat, ("", "")) if known is not None else ("", "")
            if known is not None and by == uid:  # else its reservation is gone as well
                known.gone[seat] = (life, bound)
            return seat
        self.show(pod)  # its end may be all that is heard of it
        taken = self._seat_of.pop(uid, None)
        if taken is not None:
            seats = self._seats(taken)
            last = seats.pods[taken].pop(uid)
            if not self.is_marked(taken):
                seats.left.setdefault(taken, {})[uid] = last
            if not seats.pods[taken]:
                del seats.pods[taken]
            self._tidy(taken)
        return taken

    def is_marked(self, name: SeatName) -> bool:
        """Whether nobody has to remember who took a seat: its reservation says so, or is gone."""
        seat = self._book.seat(name)
        if seat is not None:
            return seat.recorded_consumer is not None
        return self._book.get(name.namespace, name.reservation) is None

    def of(self, name: SeatName) -> Pod | None:
        """The pod that took a seat; of several that could have, the one that we bound, else the one made first."""
        seats = self._known.get((name.namespace, name.reservation))
        if seats is None:
            return None
        life, gone = seats.gone.get(name, ("", None))
        reservation = self._book.get(name.namespace, name.reservation)
        if gone is not None and reservation is not None and life == reservation.metadata.uid:
            return gone
        found = [*seats.pods.get(name, {}).values(), *seats.left.get(name, {}).values()]
        ours, _ = seats.bound.get(name, ("", ""))
        if len(found) > 1:
            found.sort(
                key=lambda pod: (pod.metadata.uid != ours, pod.metadata.creation_timestamp or "", pod.metadata.uid)
            )
        return next((pod for pod in found if self._book.believes(pod, name, given=pod.metadata.uid == ours)), None)

    def named(self, namespace: str, reservation: str) -> list[SeatName]:
        """The seats of a reservation that pods say they took, whether these are there or not."""
        seats = self._known.get((namespace, reservation))
        return seats.names() if seats is not None else []

    def is_ours(self, name: SeatName) -> bool:
        """Whether this scheduler has bound somebody into a seat that is not marked."""
        seats = self._known.get((name.namespace, name.reservation))
        return seats is not None and name in seats.bound

    def settle(self, seat: SeatName) -> None:
        """The reservation says who took the seat: nobody has to remember it."""
        seats = self._known.get((seat.namespace, seat.reservation))
        if seats is not None:
            for book in (seats.bound, seats.gone, seats.left):
                book.pop(seat, None)
            self._tidy(seat)

    def forget(self, namespace: str, reservation: str) -> None:
        """A reservation is gone, and with it what has to be marked."""
        seats = self._known.pop((namespace, reservation), None)
        if seats is not None and seats.pods:
            self._known[namespace, reservation] = _Seats(pods=seats.pods)

    def seat_of(self, pod: Pod) -> SeatName | None:
        """The seat that a pod was seen to have taken."""
        return self._seat_of.get(pod.metadata.uid)

    def _seats(self, name: SeatName) -> _Seats:
        return self._known.setdefault((name.namespace, name.reservation), _Seats())

    def _tidy(self, name: SeatName) -> None:
        key = (name.namespace, name.reservation)
        seats = self._known[key]
        if not (seats.pods or seats.left or seats.bound or seats.gone):
            del self._known[key]


def mark_of(pod: Pod) -> ObjectReference:
    """How a placement names the pod that took it; that it is a pod goes without saying."""
    return ObjectReference(namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid)


def works_for(pod: Pod) -> ObjectReference:
    """For whom a pod works: its gang, its controller, or itself."""
    meta, gang = pod.metadata, group_name(pod)
    if gang is not None:
        return ObjectReference(
            api_version=POD_GROUP.api_version, kind=POD_GROUP.kind, namespace=meta.namespace, name=gang
        )
    for one in meta.owner_references or ():
        if one.controller:
            return ObjectReference(
                api_version=one.api_version, kind=one.kind, namespace=meta.namespace, name=one.name, uid=one.uid
            )
    return ObjectReference(api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
