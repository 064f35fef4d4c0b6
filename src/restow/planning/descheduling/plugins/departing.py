"""Departing: plugins that say which pods should leave their node, and leave it to the scheduler where to.

Goes in: a search for departures, which looks at the snapshot as it is with all moves so far. Comes out: a plan. A pod
that may not move, or that fits nowhere else, stays, with the reason; nothing is evicted without a seat. Where
Defragmentation or LoadAware are at work, too, pods go to nodes that they neither empty nor find busy, if that is
possible; pods that need not go at all do not go otherwise, and not within their cool-down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from restow.eviction.ranks import priority
from restow.model.cluster import Occupant, RowIndex, Snapshot
from restow.model.cluster.names import key_of
from restow.model.objects import Pod, SelectorSpec
from restow.model.pods import stays_with_node
from restow.model.problems import Problem, besides
from restow.model.selectors import SelectorError
from restow.model.times import time_of
from restow.model.wire import WireError, convert_readable
from restow.model.words import number_of
from restow.planning.arguments import Namespaces, PodFilter, selector_of
from restow.planning.bookings import Bookings
from restow.planning.cooldown import resting, resting_sentence
from restow.planning.effect import after, versions
from restow.planning.measures import overview, slots_by_row
from restow.planning.movable import about_all, foreign_refusal, refused
from restow.planning.neighbours import Neighbours
from restow.planning.plan import Plan, Refusal
from restow.planning.request import Request
from restow.planning.sequence import Wanted, sequence


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What every one of them is told: which pods it is about."""

    api_version: str | None = None
    kind: str | None = None
    namespaces: Namespaces | None = None
    label_selector: SelectorSpec | None = None

    def problems(self) -> Iterator[Problem]:
        """What is wrong beyond types."""
        if self.namespaces is not None:
            yield from self.namespaces.problems("namespaces")
        try:
            self.pods()
        except SelectorError as error:
            yield Problem("labelSelector", str(error))

    def pods(self) -> PodFilter:
        """Raises SelectorError, of which `problems` tells before."""
        return PodFilter.of(self.namespaces, selector_of(self.label_selector))


A = TypeVar("A", bound=Arguments)


def read(type: type[A], written: Mapping[str, Any], name: str) -> A:
    """Raises WireError with every problem."""
    arguments, unread = convert_readable(type, written, name)
    problems = besides(unread, arguments.problems())
    if problems:
        raise WireError(name, problems)
    return arguments


class Departure(msgspec.Struct, frozen=True):
    pod: Occupant
    why: str
    """What is wrong with where it is, after "it"."""
    among: Callable[[RowIndex], RowIndex] = lambda rows: rows
    """Of the rows that would take it, those that put it right."""
    must: bool = True
    """Whether it goes even to where other plugins want nobody, if need be."""


Search = Callable[[Bookings], Iterable[Departure]]


def depart(name: str, snapshot: Snapshot, request: Request, search: Search) -> Plan:
    """Let pods leave as they are found, each to the node the scheduler likes best of those that put it right."""
    before = overview(snapshot)
    wanted: list[Wanted] = []
    refusals: list[Refusal] = []
    with Bookings(snapshot, request.engine, request.now) as bookings:
        seats = _Seats(bookings, request)
        for one in search(bookings):
            if len(wanted) >= request.max_moves:
                refusals.append(about_all(f"{name} may move no more than {number_of(len(wanted), 'pod')} now"))
                break
            pod, mobility = one.pod.pod, request.mobility
            if not mobility.is_ours(pod):
                continue
            why = mobility.why_not(pod) or seats.why_rest(one)
            target = None if why else seats.find(one)
            if target is not None:
                seats.take(one, target)
                wanted.append(Wanted(one.pod.key, target))
            else:
                refusals.append(refused(pod, f"it {one.why}, but {why or seats.why_none(one)}"))
    ordered = sequence(snapshot, request, wanted, most=request.max_moves)
    return Plan(
        strategy=name,
        moves=ordered.moves,
        before=before,
        after=after(snapshot, request, ordered.moves, overview),
        refusals=(*refusals, *ordered.dropped, *foreign_refusal(snapshot, request.mobility)),
        versions=versions(snapshot, ordered.moves),
    )


class _Seats:
    """Where pods go that leave: to nodes that other plugins neither empty nor find busy, if there are such."""

    def __init__(self, bookings: Bookings, request: Request) -> None:
        self._bookings = bookings
        self._snapshot = bookings.snapshot
        self._neighbours = Neighbours(bookings.snapshot, request)
        self._emptied = self._neighbours.emptied()
        self._cool_down = request.cool_down(0.0)
        self._resting = resting(bookings.snapshot, request.migrated, request.now, self._cool_down)

    def why_rest(self, one: Departure) -> str:
        """Why a pod that need not go stays for now; empty if it may go."""
        if one.must or one.pod.node not in self._resting:
            return ""
        return resting_sentence(self._cool_down, one.pod.node)

    def find(self, one: Departure) -> str | None:
        rows = one.among(self._bookings.choices(one.pod.key))
        welcome = self._neighbours.cool(one.pod, rows[~self._emptied[rows]])
        if not one.must and self._neighbours.drained(one.pod, self._row(one.pod.node)):
            welcome = welcome[:0]
        return self._best(one, welcome if len(welcome) or not one.must else rows)

    def take(self, one: Departure, target: str) -> None:
        self._bookings.hold(one.pod.key, target)
        self._bookings.end_wave()
        for name, sign in ((one.pod.node, -1), (target, 1)):
            self._neighbours.add(one.pod, self._row(name), sign)

    def _best(self, one: Departure, rows: RowIndex) -> str | None:
        names = {self._snapshot.rows.name(row) or "": row for row in rows.tolist()}
        favourite = self._bookings.favourite(one.pod.key) if names else None
        if favourite in names:
            return favourite
        slots = slots_by_row(self._snapshot, one.pod.shape.amounts)
        return min(names, key=lambda name: (-int(slots[names[name]]), name), default=None)

    def why_none(self, one: Departure) -> str:
        if len(right := one.among(self._bookings.choices(one.pod.key))):
            told = "Defragmentation empties them or its node, or LoadAware would find them busy"
            return f"{number_of(len(right), 'node')} would put that right, and other plugins are against it: {told}"
        rows = np.flatnonzero(self._snapshot.nodes.present[self._snapshot.rows.every])
        survey = self._bookings.survey(one.pod.key, rows[rows != self._snapshot.rows.find(one.pod.node)])
        others = [name for name in survey.feasible if name != one.pod.node]
        if others:
            return f"{number_of(len(others), 'other node', 'have')} room for it, and none would put that right"
        return f"no other node takes it: {survey.message}" if survey.message else "there is no other node"

    def _row(self, name: str) -> int:
        row = self._snapshot.rows.find(name)
        assert row is not None, name
        return row


# --- who is looked at -------------------------------------------------------------------------------------------------

_BOUND: Final = "requested"


def lodgers(snapshot: Snapshot, pods: PodFilter, kinds_left_out: Collection[str] = ()) -> list[Occupant]:
    """The pods on nodes that a plugin is about, by name; not those that belong to their node, come or leave."""
    found = [
        one
        for one in snapshot.pods.known.values()
        if one.book == _BOUND
        and one.assumed_at is None
        and not one.leaving
        and not stays_with_node(one.pod)
        and not pods.why_not(one.pod)
        and not any(owner.kind in kinds_left_out for owner in one.pod.metadata.owner_references or ())
    ]
    return sorted(found, key=lambda one: key_of(one.pod))


def created(pod: Pod) -> float:
    """When it was made; a pod that does not say is as old as can be."""
    return time_of(pod.metadata.creation_timestamp) or 0.0


def cheapest_first(one: Occupant) -> tuple[int, float, str, str]:
    """Lower priority first, then the newer, then by name."""
    return priority(one.pod), -created(one.pod), one.pod.metadata.namespace or "", one.pod.metadata.name
