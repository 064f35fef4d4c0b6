"""Bookings: moves tried on a snapshot the way they are carried out, reservation first.

    hold        the target is held for a pod, which stays where it is; what is held counts as the pod it will become
    end_wave    every pod that was given a seat leaves its old place

A pod that looks for a place is overlooked where it is now (it is neither crowd nor company for itself, and its ports
are no obstacle), but its room stays taken. Nodes that are emptied stay, and stay domains of topology keys. Pods of one
wave may still be where they were, or be gone already, so a place has to suit in both cases: whoever else looks meets
both the pod and its seat, and whoever asks something of other pods must also do without those who are leaving. Used as
a context: at its end the snapshot is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.model.cluster import Mark, Mask, Occupant, PodClass, RowIndex, Shape, Snapshot, filters
from restow.model.objects import Pod
from restow.model.resources import Shortage
from restow.planning.leaving import Leaver, Leaving
from restow.planning.plan import Move
from restow.scheduling.answers import Placed, Survey
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle


class _Look(msgspec.Struct, frozen=True, gc=False):
    """A pod that looks for a place."""

    occupant: Occupant
    pod: Pod
    """As it will be created again."""
    pod_class: PodClass


class Bookings:
    def __init__(self, snapshot: Snapshot, engine: Engine, now: float) -> None:
        self.snapshot = snapshot
        self._engine = engine
        self._now = now
        self._mark: Mark
        self._where: dict[str, str] = {}
        """By UID of a pod that has moved: the key of what stands for it now."""
        self._leaving = Leaving(snapshot)
        self._held = 0

    def __enter__(self) -> Self:
        self._mark = self.snapshot.mark()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.snapshot.undo_to(self._mark)

    def occupant(self, uid: str) -> Occupant | None:
        """Where a pod is now: the pod, or what stands for it since it moved."""
        return self.snapshot.pods.known.get(self._where.get(uid, uid))

    def choices(self, uid: str) -> RowIndex:
        """The rows a pod could move to, by every filter of the scheduler."""
        look = self._look(uid)
        rows = _without(self._acceptable(look, ()), self.snapshot.rows.find(look.occupant.node))
        gone = self._leaving.concerning(look.pod, look.pod_class)
        return np.intersect1d(rows, self._acceptable(look, gone), assume_unique=True) if gone else rows

    def first_taker(self, uid: str, rows: Iterable[int]) -> int | None:
        """The first of these rows, which have room, that a pod could move to; None if none does. Much cheaper than
        `choices` where one of the first will do."""
        look = self._look(uid)
        gone = self._leaving.concerning(look.pod, look.pod_class)
        for row in rows:
            node = self.snapshot.rows.name(row) or ""
            if node != look.occupant.node and self._fits(look, node, ()) and (not gone or self._fits(look, node, gone)):
                return row
        return None

    def with_room(self, uid: str, rows: RowIndex) -> Mask:
        """Which of these rows have the room alone."""
        return filters.fits(self.snapshot.room, self._known(uid).shape.amounts, rows)

    def favourite(self, uid: str) -> str | None:
        """The node that the scheduler itself would choose for a pod, which may be the one it is on."""
        with self._looking(self._look(uid), ()) as cycle:
            placed = self._engine.place(cycle, explain=False)
        return placed.node if isinstance(placed, Placed) else None

    def why_not(self, uid: str, node: str) -> str:
        """What keeps a pod from moving to a node, with numbers where room is short; empty if nothing does."""
        look = self._look(uid)
        gone = self._leaving.concerning(look.pod, look.pod_class)
        return self._why_not(look, node, ()) or (self._why_not(look, node, gone) if gone else "")

    def why_not_placed(self, pod: Pod, node: str) -> str:
        """What keeps a pending pod from a node; empty if nothing does."""
        cycle = Cycle(pod, self.snapshot, self._now)
        refused = self._engine.why_not(cycle, node)
        return (self._short(cycle.pod_class.shape, node) or refused) if refused else ""

    def survey(self, uid: str, rows: RowIndex) -> Survey:
        """What the nodes on these rows say to a pod that is to move, while all who leave are still there."""
        with self._looking(self._look(uid), ()) as cycle:
            return self._engine.survey(cycle, rows)

    def has_room(self, uid: str, node: str) -> bool:
        """Whether a node has the room alone: much cheaper than asking every filter, and mostly the reason."""
        row, occupant = self.snapshot.rows.find(node), self.occupant(uid)
        if row is None or occupant is None:
            return False
        return filters.fits_row(self.snapshot.room, occupant.shape.amounts, row)

    def hold(self, uid: str, node: str) -> None:
        """Hold room on a node for a pod, which stays where it is until the wave ends."""
        occupant = self._known(uid)
        self._held += 1
        key = f"{uid}/{self._held}"
        pod = loose(occupant.pod)
        seat = replace(pod, metadata=replace(pod.metadata, uid=key))
        self.snapshot.assume(seat, node, at=self._now, shape=occupant.shape)
        self._leaving.add(Leaver(uid, occupant, key))

    def end_wave(self) -> None:
        """Everybody who has a seat takes it."""
        for one in self._leaving.end():
            if one.occupant.key == one.uid:
                self.snapshot.remove_pod(one.occupant.pod)
            else:
                self.snapshot.forget(one.occupant.pod)
            self._where[one.uid] = one.seat

    @contextmanager
    def trying(self) -> Iterator[Callable[[], None]]:
        """Bookings that are kept only if the function that this gives is called before it ends."""
        mark, leaving, where = self.snapshot.mark(), len(self._leaving), dict(self._where)
        kept = False

        def keep() -> None:
            nonlocal kept
            kept = True

        yield keep
        if kept:
            self.snapshot.keep(mark)
        else:
            self.snapshot.undo_to(mark)
            self._leaving.take_back(leaving)
            self._where = where

    # ------------------------------------------------------------------------------------------------------------------

    def _look(self, uid: str) -> _Look:
        occupant = self._known(uid)
        pod = loose(occupant.pod)
        return _Look(occupant, pod, self.snapshot.class_of(pod, occupant.shape))

    @contextmanager
    def _looking(self, look: _Look, gone: Sequence[str]) -> Iterator[Cycle]:
        """A cycle in which a pod looks for a place, while those who are gone are overlooked."""
        shape = look.occupant.shape
        own = (
            [look.occupant.key] if shape.readings or shape.facts.volumes else []
        )  # else only its own node is concerned
        with self.snapshot.overlooking(*dict.fromkeys([*own, *gone])):
            yield Cycle(look.pod, self.snapshot, self._now, look.pod_class)

    def _acceptable(self, look: _Look, gone: Sequence[str]) -> RowIndex:
        with self._looking(look, gone) as cycle:
            return self._engine.acceptable(cycle)

    def _fits(self, look: _Look, node: str, gone: Sequence[str]) -> bool:
        with self._looking(look, gone) as cycle:
            return self._engine.fits(cycle, node)

    def _why_not(self, look: _Look, node: str, gone: Sequence[str]) -> str:
        with self._looking(look, gone) as cycle:
            if self._engine.fits(cycle, node):
                return ""
            return self._short(look.occupant.shape, node) or self._engine.why_not(cycle, node)

    def _known(self, uid: str) -> Occupant:
        occupant = self.occupant(uid)
        if occupant is None:
            raise LookupError(f"no pod with the UID {uid} is on any node")
        return occupant

    def _short(self, shape: Shape, node: str) -> str:
        room, row = self.snapshot.room, self.snapshot.rows.find(node)
        if row is None or not self.snapshot.nodes.present[row]:
            return ""
        short = [
            Shortage(room.resources.name(number), amount, max(0, room.left(number, row)))
            for number, amount in shape.amounts
            if amount > room.left(number, row)
        ]
        return ", ".join(str(one) for one in sorted(short))


def carry_out(bookings: Bookings, moves: Iterable[Move]) -> None:
    """Make moves, wave after wave, to the end."""
    wave = 0
    for move in moves:
        if move.wave != wave:
            bookings.end_wave()
            wave = move.wave
        bookings.hold(move.uid, move.target)
    bookings.end_wave()


def loose(pod: Pod) -> Pod:
    """A pod as it will be created again: on no node yet."""
    return replace(pod, spec=replace(pod.spec, node_name=None), status=replace(pod.status, nominated_node_name=None))


def _without(rows: RowIndex, row: int | None) -> RowIndex:
    others: RowIndex = rows[rows != row]
    return others
