"""Simulates moves on a snapshot as migration carries them out: the target is reserved before the pod leaves its node.

Goes in: a snapshot, the scheduler's engine, and moves one after the other. Comes out: where a pod could move to, why a
node refuses it, and the snapshot as it will be. `MoveSimulation` is a context manager: when it ends, the snapshot is as
it was before.

    reserve_target    the target is reserved for the pod, which stays on its node; the reservation counts on the target
                      like the pod that will run there
    end_wave          every pod with a reserved target leaves its old node

How a pod that looks for a target sees the cluster:
- Its own affinity, spread and ports on its present node are ignored, because its successor replaces it. Its requests on
  that node are not ignored, because the old pod runs until the successor is ready.
- Pods of the same wave may still be on their old nodes, or may have left already; the order is not known. So a target
  has to pass the filters in both cases: with those pods on both nodes (for resources, ports and anti-affinity), and
  without them on their old nodes (for topology spread and pod affinity).
- A node without pods stays in the snapshot, and stays a domain of its topology keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.model.cluster import Mark, Mask, Occupant, PodClass, RowIndex, Shape, node_filters
from restow.model.objects import Pod
from restow.model.resources import Shortage
from restow.model.snapshot import Snapshot
from restow.planning.plan import Move
from restow.planning.wave_departures import Departure, WaveDepartures
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Cycle
from restow.scheduling.schedule_result import Diagnosis, NodeFound


class _MovingPod(msgspec.Struct, frozen=True, gc=False):
    """A pod on a node, and the pod that its controller will create instead."""

    occupant: Occupant
    successor: Pod
    """The same pod without a node."""
    pod_class: PodClass


class MoveSimulation:
    def __init__(self, snapshot: Snapshot, engine: Engine, now: float) -> None:
        self.snapshot = snapshot
        self._engine = engine
        self._now = now
        self._mark: Mark
        self._current_keys: dict[str, str] = {}
        """By UID of a pod that has moved: the key of the occupant that represents it on its new node."""
        self._departures = WaveDepartures(snapshot)
        self._reserved_count = 0

    def __enter__(self) -> Self:
        self._mark = self.snapshot.mark()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.snapshot.undo_to(self._mark)

    def occupant(self, uid: str) -> Occupant | None:
        """The pod on its present node; after a move, the occupant that represents it on the target."""
        return self.snapshot.pods.known.get(self._current_keys.get(uid, uid))

    def feasible_rows(self, uid: str) -> RowIndex:
        """The rows that a pod could move to, by every filter of the scheduler."""
        moving = self._moving_pod(uid)
        rows = _without(self._rows_passing_filters(moving, ()), self.snapshot.rows.find_row(moving.occupant.node))
        departed = self._departures.relevant_to(moving.successor, moving.pod_class)
        if not departed:
            return rows
        return np.intersect1d(rows, self._rows_passing_filters(moving, departed), assume_unique=True)

    def first_feasible_row(self, uid: str, rows: Iterable[int]) -> int | None:
        """The first of these rows that a pod could move to; None if it can move to none of them. The rows have enough
        free resources. Much cheaper than `feasible_rows` where one of the first rows will do."""
        moving = self._moving_pod(uid)
        departed = self._departures.relevant_to(moving.successor, moving.pod_class)
        for row in rows:
            node = self.snapshot.rows.name(row) or ""
            if (
                node != moving.occupant.node
                and self._passes_filters(moving, node, ())
                and (not departed or self._passes_filters(moving, node, departed))
            ):
                return row
        return None

    def has_room_mask(self, uid: str, rows: RowIndex) -> Mask:
        """Which of these rows have enough free resources for a pod, all other filters aside."""
        return node_filters.rows_that_fit(self.snapshot.room, self._occupant_or_error(uid).shape.amounts, rows)

    def preferred_node(self, uid: str) -> str | None:
        """The node that the scheduler itself would choose for a pod, which may be its present one."""
        with self._cycle(self._moving_pod(uid), ()) as cycle:
            placed = self._engine.find_node(cycle, explain=False)
        return placed.node if isinstance(placed, NodeFound) else None

    def move_refusal(self, uid: str, node: str) -> str:
        """Why a pod cannot move to a node, with numbers where resources are short; empty if it can."""
        moving = self._moving_pod(uid)
        departed = self._departures.relevant_to(moving.successor, moving.pod_class)
        return self._refusal(moving, node, ()) or (self._refusal(moving, node, departed) if departed else "")

    def survey_nodes(self, uid: str, rows: RowIndex) -> Diagnosis:
        """What the filters say of the nodes on these rows, while all pods of the wave are still on their old nodes."""
        with self._cycle(self._moving_pod(uid), ()) as cycle:
            return self._engine.diagnose(cycle, rows)

    def has_room(self, uid: str, node: str) -> bool:
        """Whether a node has enough free resources. Much cheaper than all filters, and mostly the reason to refuse."""
        row, occupant = self.snapshot.rows.find_row(node), self.occupant(uid)
        if row is None or occupant is None:
            return False
        return node_filters.fits_on_row(self.snapshot.room, occupant.shape.amounts, row)

    def reserve_target(self, uid: str, node: str) -> None:
        """Reserve a node for a pod, which stays where it is until the wave ends."""
        occupant = self._occupant_or_error(uid)
        # A pod may move twice (by way of a third node), so each reservation has a key of its own.
        self._reserved_count += 1
        key = f"{uid}/{self._reserved_count}"
        successor = without_node_pin(occupant.pod)
        seat = replace(successor, metadata=replace(successor.metadata, uid=key))
        self.snapshot.assume(seat, node, at=self._now, shape=occupant.shape)
        self._departures.add(Departure(uid, occupant, key))

    def end_wave(self) -> None:
        """All pods with a reserved target leave their old nodes."""
        for departure in self._departures.take_all():
            if departure.occupant.key == departure.uid:
                self.snapshot.remove_pod(departure.occupant.pod)
            else:  # it moved before: what is on its old node is an assumed successor
                self.snapshot.forget(departure.occupant.pod)
            self._current_keys[departure.uid] = departure.seat_key

    @contextmanager
    def trial(self) -> Iterator[Callable[[], None]]:
        """A block that undoes its reservations at the end, unless the function that it yields has been called."""
        mark, departures, keys = self.snapshot.mark(), len(self._departures), dict(self._current_keys)
        is_kept = False

        def keep() -> None:
            nonlocal is_kept
            is_kept = True

        yield keep
        if is_kept:
            self.snapshot.keep(mark)
        else:
            self.snapshot.undo_to(mark)
            self._departures.truncate(departures)
            self._current_keys = keys

    # ------------------------------------------------------------------------------------------------------------------

    def _moving_pod(self, uid: str) -> _MovingPod:
        occupant = self._occupant_or_error(uid)
        successor = without_node_pin(occupant.pod)
        return _MovingPod(occupant, successor, self.snapshot.class_of(successor, occupant.shape))

    @contextmanager
    def _cycle(self, moving: _MovingPod, departed: Sequence[str]) -> Iterator[Cycle]:
        """A scheduling cycle for the successor, in which the departed pods are ignored on their old nodes."""
        shape = moving.occupant.shape
        # A pod without affinity, spread or volumes matters to filters on its own node only, which is never the target:
        # overlooking it would cost time and change nothing.
        own = [moving.occupant.key] if shape.selector_scopes or shape.fields.volumes else []
        with self.snapshot.counting_only_room_of(*dict.fromkeys([*own, *departed])):
            yield Cycle(moving.successor, self.snapshot, self._now, moving.pod_class)

    def _rows_passing_filters(self, moving: _MovingPod, departed: Sequence[str]) -> RowIndex:
        with self._cycle(moving, departed) as cycle:
            return self._engine.feasible_rows(cycle)

    def _passes_filters(self, moving: _MovingPod, node: str, departed: Sequence[str]) -> bool:
        with self._cycle(moving, departed) as cycle:
            return self._engine.fits(cycle, node)

    def _refusal(self, moving: _MovingPod, node: str, departed: Sequence[str]) -> str:
        with self._cycle(moving, departed) as cycle:
            if self._engine.fits(cycle, node):
                return ""
            shortage = shortage_message(self.snapshot, moving.occupant.shape, node)
            return shortage or self._engine.why_node_refuses(cycle, node)

    def _occupant_or_error(self, uid: str) -> Occupant:
        occupant = self.occupant(uid)
        if occupant is None:
            raise LookupError(f"no pod with the UID {uid} is on any node")
        return occupant


def simulate_moves(simulation: MoveSimulation, moves: Iterable[Move]) -> None:
    """Make all moves, wave after wave; afterwards every pod has left its old node."""
    wave = 0
    for move in moves:
        if move.wave != wave:
            simulation.end_wave()
            wave = move.wave
        simulation.reserve_target(move.uid, move.target)
    simulation.end_wave()


def without_node_pin(pod: Pod) -> Pod:
    """The pod as its controller will create it again: neither bound to a node nor nominated for one."""
    return replace(pod, spec=replace(pod.spec, node_name=None), status=replace(pod.status, nominated_node_name=None))


def shortage_message(snapshot: Snapshot, shape: Shape, node: str) -> str:
    """Which resources a node has too little of, with numbers; empty if it has enough or does not exist."""
    room, row = snapshot.room, snapshot.rows.find_row(node)
    if row is None or not snapshot.nodes.present[row]:
        return ""
    shortages = [
        Shortage(room.resources.name(column), amount, max(0, room.left(column, row)))
        for column, amount in shape.amounts
        if amount > room.left(column, row)
    ]
    return ", ".join(str(shortage) for shortage in sorted(shortages))


def _without(rows: RowIndex, row: int | None) -> RowIndex:
    others: RowIndex = rows[rows != row]
    return others
