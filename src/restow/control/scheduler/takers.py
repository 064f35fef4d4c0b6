"""Takers: which pods were bound into which seats, for as long as their reservations do not say so.

Goes in: pods as the API shows them, running or over, and what this scheduler bound itself. Comes out: who took a seat.
The snapshot forgets pods that are over; a seat that such a pod took must be marked all the same, or somebody else would
take it once more.

A pod is believed when it is bound to the seat's node, its annotation names the seat, and this scheduler bound it there
or the reservation's owners match it. What this scheduler has bound is believed even if the pod is gone before anything
shows it there; and what it has seen is not forgotten with the pod, as long as the seat is not marked.
"""

from __future__ import annotations

from collections.abc import Callable

from restow.model.cluster import Seat, SeatName
from restow.model.cluster.owners import Kinship, group_name
from restow.model.cluster.seat import is_in_life, named_seat
from restow.model.kinds import POD_GROUP
from restow.model.objects import ObjectReference, Pod


class Takers:
    def __init__(self, kinship: Kinship) -> None:
        self._kinship = kinship
        self._pods: dict[SeatName, dict[str, Pod]] = {}
        self._seat_of: dict[str, SeatName] = {}
        self._bound: dict[SeatName, tuple[str, str]] = {}
        """By us: the UID of the pod, and of the reservation."""
        self._unseen: dict[str, tuple[SeatName, Pod]] = {}
        """Bound by us and not shown since, by UID."""
        self._gone: dict[SeatName, tuple[str, Pod]] = {}
        """Bound by us, and gone before anything showed them; with the UID of the reservation."""
        self._left: dict[SeatName, dict[str, Pod]] = {}
        """Seen in seats, and gone before these were marked."""

    def bound(self, pod: Pod, seat: Seat) -> None:
        """This scheduler bound a pod into a seat."""
        uid = pod.metadata.uid
        self._bound[seat.name] = (uid, seat.life)
        if uid not in self._pods.get(seat.name, {}):
            self._unseen[uid] = (seat.name, pod)

    def show(self, pod: Pod) -> SeatName | None:
        """A pod as it is; returns the seat that it was not known to have taken. A binding is final."""
        uid, notes = pod.metadata.uid, pod.metadata.annotations
        if not pod.spec.node_name or uid in self._seat_of:
            return None
        self._unseen.pop(uid, None)
        seat = named_seat(pod) if notes else None
        if seat is not None:
            self._seat_of[uid] = seat
            self._pods.setdefault(seat, {})[uid] = pod
        return seat

    def hide(self, pod: Pod, is_open: Callable[[SeatName], bool]) -> SeatName | None:
        """A pod is gone; returns the seat it had taken. Who took one that is still open is remembered."""
        uid = pod.metadata.uid
        unseen = self._unseen.pop(uid, None)
        if unseen is not None:
            seat, bound = unseen
            by, life = self._bound.get(seat, ("", ""))
            if by == uid:  # else its reservation is gone as well
                self._gone[seat] = (life, bound)
            return seat
        taken = self._seat_of.pop(uid, None)
        if taken is not None:
            last = self._pods[taken].pop(uid)
            if is_open(taken):
                self._left.setdefault(taken, {})[uid] = last
            if not self._pods[taken]:
                del self._pods[taken]
        return taken

    def of(self, seat: Seat) -> Pod | None:
        """The pod that took a seat; of several that could have, the one that we bound, else the one made first."""
        life, gone = self._gone.get(seat.name, ("", None))
        if gone is not None and life == seat.life:
            return gone
        found = [*self._pods.get(seat.name, {}).values(), *self._left.get(seat.name, {}).values()]
        if len(found) > 1:
            ours, _ = self._bound.get(seat.name, ("", ""))
            found.sort(
                key=lambda pod: (pod.metadata.uid != ours, pod.metadata.creation_timestamp or "", pod.metadata.uid)
            )
        return next((pod for pod in found if self._is_believed(pod, seat)), None)

    def settle(self, seat: SeatName) -> None:
        """The reservation says who took the seat: nobody has to remember it."""
        self._bound.pop(seat, None)
        self._gone.pop(seat, None)
        self._left.pop(seat, None)

    def forget(self, namespace: str, reservation: str) -> None:
        """A reservation is gone, and with it what has to be marked."""
        for book in (self._bound, self._gone, self._left):
            for seat in [one for one in book if (one.namespace, one.reservation) == (namespace, reservation)]:
                del book[seat]

    def seat_of(self, pod: Pod) -> SeatName | None:
        """The seat that a pod was seen to have taken."""
        return self._seat_of.get(pod.metadata.uid)

    def _is_believed(self, pod: Pod, seat: Seat) -> bool:
        return (
            pod.spec.node_name == seat.node
            and pod.metadata.namespace == seat.name.namespace
            and is_in_life(pod, seat)
            and (self._bound.get(seat.name) == (pod.metadata.uid, seat.life) or seat.owners.match(pod, self._kinship))
        )


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
