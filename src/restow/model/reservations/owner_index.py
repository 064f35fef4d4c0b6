"""Directory: which reservations may be for a pod, without looking at all of them.

Goes in: reservations with their owners. Comes out: for a pod, those of its namespace whose owners may speak of it, the
ones made for a migration first, then the oldest first, by name among equals.

Reservations are listed under the traits that their owners ask for (a label, a UID, a name), and a pod is looked up
under what it has of these, so that a pod of nobody's costs a few look-ups however many reservations there are. Whether
the owners really match is for the caller to ask.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from restow.model.object_key import Key, key_of
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.undo import UndoLog
from restow.model.objects import Pod, Reservation
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.reservations.owners import NAME, UID, Facet, Owners, values_of

Turn = tuple[bool, str, str]
"""Not for a migration, when it was made, its name: the smaller, the sooner."""
_Entry = tuple[Turn, tuple[tuple[Facet, str], ...]]


class OwnerIndex:
    __slots__ = ("_entries", "_listed", "_log")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._entries: dict[Key, _Entry] = {}
        self._listed: dict[str, dict[Facet, dict[str, list[Turn]]]] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    def any_in(self, namespace: str) -> bool:
        """Whether any reservation of a namespace is listed that may be for somebody."""
        return namespace in self._listed

    def is_sought(self, pod: Pod) -> bool:
        """Whether a reservation asks for this very pod, by name or UID."""
        listed = self._listed.get(pod.metadata.namespace or "", {})
        return pod.metadata.name in listed.get(NAME, ()) or pod.metadata.uid in listed.get(UID, ())

    def find(self, pod: Pod, kinship: OwnerChains) -> Iterator[str]:
        """The names of reservations that ask for something that a pod has, in turn. They may be dropped meanwhile."""
        lists = []
        for facet, by_value in self._listed.get(pod.metadata.namespace or "", {}).items():
            lists += [by_value[value] for value in values_of(pod, facet, kinship) if value in by_value]
        turn = min((turns[0] for turns in lists), default=None) if lists else None
        while turn is not None:
            yield turn[2]
            following = (_after(turns, turn) for turns in lists)
            turn = min((one for one in following if one is not None), default=None)

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, reservation: Reservation, owners: Owners) -> None:
        """List a reservation under what its owners ask for now. One that is nobody's is found by nobody."""
        key, entry = key_of(reservation), (turn_of(reservation), tuple(dict.fromkeys(owners.traits())))
        if self._entries.get(key) != entry:
            self.drop(key)
            self._list(key, entry)

    def drop(self, key: Key) -> None:
        """List a reservation no longer; harmless for one that is not."""
        if key in self._entries:
            self._strike(key)

    def _list(self, key: Key, entry: _Entry) -> None:
        turn, traits = self._entries[key] = entry
        listed = self._listed.setdefault(key[0], {}) if traits else {}
        for facet, value in traits:
            insort(listed.setdefault(facet, {}).setdefault(value, []), turn)
        self._log.record(self._strike, key)

    def _strike(self, key: Key) -> None:
        """The inverse of `_list`."""
        turn, traits = entry = self._entries.pop(key)
        listed = self._listed.get(key[0], {})
        for facet, value in traits:
            turns = listed[facet][value]
            del turns[bisect_left(turns, turn)]
            if not turns:
                del listed[facet][value]
            if not listed[facet]:
                del listed[facet]
        if not listed:
            self._listed.pop(key[0], None)
        self._log.record(self._list, key, entry)


def turn_of(reservation: Reservation) -> Turn:
    metadata = reservation.metadata
    return migrating_pod(reservation) is None, metadata.creation_timestamp or "", metadata.name


def _after(turns: list[Turn], last: Turn) -> Turn | None:
    """The first turn that comes after another."""
    place = bisect_right(turns, last)
    return turns[place] if place < len(turns) else None
