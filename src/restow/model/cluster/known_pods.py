"""The pods that take room on nodes: from watch events and assumptions to occupants.

Goes in: pods as the API shows them, and pods assumed ahead of it. Comes out: occupants of nodes, and the assumptions
that the API has not confirmed yet. A pod is known by its UID.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from restow.model.cluster.occupancy import Occupancy, Occupant
from restow.model.cluster.pod_shapes import Shape, Shapes, are_surely_alike
from restow.model.cluster.seen_versions import SeenVersions, version_number
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import Pod
from restow.model.pods import is_finished
from restow.model.reservations.reservation_annotations import named_seat
from restow.model.reservations.seat_name import SeatName


class Assumption(msgspec.Struct, frozen=True):
    """A pod that was assumed and not yet shown by the API, to be compared with what the API really says."""

    pod: Pod
    node: str
    age: float


def is_stale(age: float, limit: float) -> bool:
    """Whether an assumption of this age should have been shown by now. A negative age means that the clock was set
    back, and counts as stale."""
    return not 0 <= age < limit


class AlreadyPlaced(Exception):
    """The pod is assumed or bound already: placing it once more would count it twice."""


class KnownPods:
    """The pods that take room.

             assume             shown bound          shown terminating
        -  ---------> Assumed -------------> Bound -------------------> Leaving
        ^                |                   ^   |                         |
        |<--- forget ----+    - -shown bound-+   |                         |
        |                |                       |                         |
        +<---------------+-------- over, or deleted -----------------------+

    Pending pods take no room and are unknown here; succeeded and failed pods are over. An assumed pod counts in full.
    The watch ends an assumption: an event that shows the pod bound there confirms it, one that shows it bound elsewhere
    moves it there, one that shows it deleted or over releases it. Until then `forget` takes it back; afterwards
    `forget` does nothing. A bound pod never becomes unbound, so an event that says so is late.
    """

    __slots__ = ("_known", "_log", "_occupancy", "_shapes", "_versions", "known", "seen")

    def __init__(self, log: UndoLog, occupancy: Occupancy, shapes: Shapes) -> None:
        self._log = log
        self._occupancy = occupancy
        self._shapes = shapes
        self._known: dict[str, Occupant] = {}
        self.known: Mapping[str, Occupant] = self._known
        """Assumed, bound and leaving pods by UID."""
        self._versions = SeenVersions(log)
        self.seen = 0

    def apply(self, pod: Pod) -> bool:
        """An event shows a pod; returns whether it was new. Raises QuantityError, and nothing changes."""
        uid = pod.metadata.uid
        after = self._shown(pod)  # before the version is remembered: it raises for an invalid request
        over = is_finished(pod)
        if not self._versions.is_news(uid, version_number(pod.metadata.resource_version), gone=over):
            return False
        self._set(uid, after)
        return True

    def remove(self, pod: Pod) -> bool:
        """An event says a pod was deleted."""
        uid = pod.metadata.uid
        if not self._versions.is_news(uid, version_number(pod.metadata.resource_version), gone=True):
            return False
        self._set(uid, None)
        return True

    def is_late(self, pod: Pod) -> bool:
        """Whether a newer version of a pod was seen, or its end."""
        return self._versions.is_late(pod.metadata.uid, version_number(pod.metadata.resource_version))

    def see_through(self, version: int) -> None:
        """Every change of pods up to `version` was seen."""
        self._log.record(setattr, self, "seen", self.seen)
        self.seen = max(self.seen, version)

    def was_seen(self, uid: str, version: int) -> bool:
        """Whether a pod that was bound before `version` is here, was here, or would be here if it still existed."""
        return uid in self._known or self._versions.is_gone(uid) or version <= self.seen

    def assume(
        self, pod: Pod, node: str, shape: Shape, seat: SeatName | None, at: float, *, instead: Occupant | None = None
    ) -> None:
        """Count a pod on a node before the API shows it there, perhaps in exchange for a reserved pod, `instead`.
        Raises AlreadyPlaced if it is counted already."""
        uid = pod.metadata.uid
        if uid in self._known:
            on = self._known[uid].node
            raise AlreadyPlaced(f"pod {pod.metadata.namespace}/{pod.metadata.name} is on {on} already")
        occupant = Occupant(key=uid, pod=pod, node=node, shape=shape, assumed_at=at, seat=seat)
        if instead is None:
            self._occupancy.add(occupant)
        else:
            self._occupancy.exchange(instead, occupant)
        self._log.put(self._known, uid, occupant)

    def forget(self, uid: str) -> bool:
        """Take an assumption back; False if there is none (any more)."""
        known = self._known.get(uid)
        if known is None or known.assumed_at is None:
            return False
        self._set(uid, None)
        return True

    def assumed(self, now: float) -> Iterator[Assumption]:
        """Assumptions the API has not confirmed yet, oldest first."""
        waiting = [
            (now - occupant.assumed_at, occupant)
            for occupant in self._known.values()
            if occupant.assumed_at is not None
        ]
        for age, occupant in sorted(waiting, key=lambda pair: (-pair[0], pair[1].key)):
            yield Assumption(occupant.pod, occupant.node, age)

    def _shown(self, pod: Pod) -> Occupant | None:
        """The occupant that a pod is once an event has shown it; None for a pod that takes no room."""
        known = self._known.get(pod.metadata.uid)
        if is_finished(pod):
            return None
        if pod.spec.node_name:
            return self._bound(pod, pod.spec.node_name, known)
        if known and known.assumed_at is not None:
            return msgspec.structs.replace(known, pod=pod, shape=self._shapes.of(pod))
        return known

    def _bound(self, pod: Pod, node: str, known: Occupant | None) -> Occupant:
        # The binding of an assumed pod changes nothing that its shape depends on, and to work that out costs most here.
        same = known is not None and are_surely_alike(pod, known.pod)
        return Occupant(
            key=pod.metadata.uid,
            pod=pod,
            node=node,
            shape=known.shape if known is not None and same else self._shapes.of(pod),
            leaving=pod.metadata.deletion_timestamp is not None,
            seat=named_seat(pod),
        )

    def _set(self, uid: str, occupant: Occupant | None) -> None:
        old = self._known.get(uid)
        if old and occupant:
            self._occupancy.replace(old, occupant)
        elif old:
            self._occupancy.remove(old)
        elif occupant:
            self._occupancy.add(occupant)
        if occupant:
            self._log.put(self._known, uid, occupant)
        else:
            self._log.drop(self._known, uid)
