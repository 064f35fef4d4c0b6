"""An index of reservations by their owners: which of them may be for a pod, without looking at all of them.

Goes in: reservations with their owners. Comes out: for a pod, the reservations of its namespace that share a lookup key
with it (a label, a UID, a name), in the order in which pods try them: those made for a migration first, then the
oldest, by name among equals. A pod that no reservation is for costs a few lookups, however many reservations there are.
Whether the owners really match, the caller checks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.undo_log import UndoLog
from restow.model.object_key import Key, key_of
from restow.model.objects import Pod, Reservation
from restow.model.reservations.owners import NAME, UID, LookupKind, Owners, lookup_values
from restow.model.reservations.reservation_annotations import migrating_pod

TryOrder = tuple[bool, str, str]
"""Not made for a migration, creation time, name: pods try the reservation with the smallest first."""
_Entry = tuple[TryOrder, tuple[tuple[LookupKind, str], ...]]


class OwnerIndex:
    __slots__ = ("_by_lookup_key", "_entries", "_log")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._entries: dict[Key, _Entry] = {}
        self._by_lookup_key: dict[str, dict[LookupKind, dict[str, list[TryOrder]]]] = {}
        """By namespace, kind and value."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def has_reservations_in(self, namespace: str) -> bool:
        """Whether any reservation of a namespace is in the index."""
        return namespace in self._by_lookup_key

    def names_pod(self, pod: Pod) -> bool:
        """Whether an owner of a reservation refers to this very pod, by name or UID."""
        by_kind = self._by_lookup_key.get(pod.metadata.namespace or "", {})
        return pod.metadata.name in by_kind.get(NAME, ()) or pod.metadata.uid in by_kind.get(UID, ())

    def find(self, pod: Pod, owner_chains: OwnerChains) -> Iterator[str]:
        """The names of the reservations that share a lookup key with a pod, in the order to try them.

        The caller may drop reservations from the index between two of them.
        """
        lists = []
        for kind, by_value in self._by_lookup_key.get(pod.metadata.namespace or "", {}).items():
            lists += [by_value[value] for value in lookup_values(pod, kind, owner_chains) if value in by_value]
        # The smallest of all lists, then the smallest that is larger than the one before: no list is copied.
        order = min((orders[0] for orders in lists), default=None) if lists else None
        while order is not None:
            yield order[2]
            following = (_after(orders, order) for orders in lists)
            order = min((entry for entry in following if entry is not None), default=None)

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(self, reservation: Reservation, owners: Owners) -> None:
        """List a reservation under the lookup keys of its owners, instead of any before; without owners under none."""
        key, entry = key_of(reservation), (try_order(reservation), tuple(dict.fromkeys(owners.lookup_keys())))
        if self._entries.get(key) != entry:
            self.drop(key)
            self._insert(key, entry)

    def drop(self, key: Key) -> None:
        """Remove a reservation from the index; harmless for one that is not in it."""
        if key in self._entries:
            self._remove(key)

    def _insert(self, key: Key, entry: _Entry) -> None:
        order, lookup_keys = self._entries[key] = entry
        by_kind = self._by_lookup_key.setdefault(key[0], {}) if lookup_keys else {}
        for kind, value in lookup_keys:
            insort(by_kind.setdefault(kind, {}).setdefault(value, []), order)
        self._log.record(self._remove, key)

    def _remove(self, key: Key) -> None:
        """The inverse of `_insert`."""
        order, lookup_keys = entry = self._entries.pop(key)
        by_kind = self._by_lookup_key.get(key[0], {})
        for kind, value in lookup_keys:
            orders = by_kind[kind][value]
            del orders[bisect_left(orders, order)]
            if not orders:
                del by_kind[kind][value]
            if not by_kind[kind]:
                del by_kind[kind]
        if not by_kind:
            self._by_lookup_key.pop(key[0], None)
        self._log.record(self._insert, key, entry)


def try_order(reservation: Reservation) -> TryOrder:
    metadata = reservation.metadata
    return migrating_pod(reservation) is None, metadata.creation_timestamp or "", metadata.name


def _after(orders: list[TryOrder], last: TryOrder) -> TryOrder | None:
    """The first entry of a sorted list that comes after another one."""
    position = bisect_right(orders, last)
    return orders[position] if position < len(orders) else None
