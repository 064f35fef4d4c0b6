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

from restow.eviction.qos_and_priority import pod_priority
from restow.model.cluster import Occupant, RowIndex
from restow.model.object_key import key_of
from restow.model.objects import Pod, SelectorSpec
from restow.model.pods import stays_with_node
from restow.model.problems import Problem, problems_of_readable_members
from restow.model.selectors import SelectorError
from restow.model.snapshot import Snapshot
from restow.model.times import time_of
from restow.model.wire import WireError, convert_readable
from restow.model.counted_nouns import counted_noun
from restow.planning.arguments import NamespaceFilterArgs, PodFilter, selector_from_spec
from restow.planning.cooldown import cool_down_message, nodes_cooling_down
from restow.planning.eviction_rules import foreign_pod_refusals, general_refusal, pod_refusal
from restow.planning.measures import cluster_overview, slots_by_row
from restow.planning.move_ordering import DesiredMove, order_moves
from restow.planning.move_simulation import MoveSimulation
from restow.planning.peer_constraints import PeerConstraints
from restow.planning.plan import Plan, Refusal
from restow.planning.plan_effect import measures_after, object_versions
from restow.planning.plan_request import PlanRequest


class CandidateArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What every one of them is told: which pods it is about."""

    api_version: str | None = None
    kind: str | None = None
    namespaces: NamespaceFilterArgs | None = None
    label_selector: SelectorSpec | None = None

    def problems(self) -> Iterator[Problem]:
        """What is wrong beyond types."""
        if self.namespaces is not None:
            yield from self.namespaces.problems("namespaces")
        try:
            self.pod_filter()
        except SelectorError as error:
            yield Problem("labelSelector", str(error))

    def pod_filter(self) -> PodFilter:
        """Raises SelectorError, of which `problems` tells before."""
        return PodFilter.of(self.namespaces, selector_from_spec(self.label_selector))


A = TypeVar("A", bound=CandidateArguments)


def read_plugin_arguments(type: type[A], written: Mapping[str, Any], name: str) -> A:
    """Raises WireError with every problem."""
    arguments, unread = convert_readable(type, written, name)
    problems = problems_of_readable_members(unread, arguments.problems())
    if problems:
        raise WireError(name, problems)
    return arguments


class Candidate(msgspec.Struct, frozen=True):
    pod: Occupant
    why: str
    """What is wrong with where it is, after "it"."""
    among: Callable[[RowIndex], RowIndex] = lambda rows: rows
    """Of the rows that would take it, those that put it right."""
    must: bool = True
    """Whether it goes even to where other plugins want nobody, if need be."""


FindCandidates = Callable[[MoveSimulation], Iterable[Candidate]]


def plan_candidates(name: str, snapshot: Snapshot, request: PlanRequest, search: FindCandidates) -> Plan:
    """Let pods leave as they are found, each to the node the scheduler likes best of those that put it right."""
    before = cluster_overview(snapshot)
    wanted: list[DesiredMove] = []
    refusals: list[Refusal] = []
    with MoveSimulation(snapshot, request.engine, request.now) as bookings:
        seats = _Seats(bookings, request)
        for one in search(bookings):
            if len(wanted) >= request.max_moves:
                refusals.append(general_refusal(f"{name} may move no more than {counted_noun(len(wanted), 'pod')} now"))
                break
            pod, mobility = one.pod.pod, request.eviction_rules
            if not mobility.is_ours(pod):
                continue
            why = mobility.refusal_reason(pod) or seats.why_rest(one)
            target = None if why else seats.find(one)
            if target is not None:
                seats.take(one, target)
                wanted.append(DesiredMove(one.pod.key, target))
            else:
                refusals.append(pod_refusal(pod, f"it {one.why}, but {why or seats.why_none(one)}"))
    ordered = order_moves(snapshot, request, wanted, max_moves=request.max_moves)
    return Plan(
        strategy=name,
        moves=ordered.moves,
        before=before,
        after=measures_after(snapshot, request, ordered.moves, cluster_overview),
        refusals=(*refusals, *ordered.dropped, *foreign_pod_refusals(snapshot, request.eviction_rules)),
        versions=object_versions(snapshot, ordered.moves),
    )


class _Seats:
    """Where pods go that leave: to nodes that other plugins neither empty nor find busy, if there are such."""

    def __init__(self, bookings: MoveSimulation, request: PlanRequest) -> None:
        self._bookings = bookings
        self._snapshot = bookings.snapshot
        self._neighbours = PeerConstraints(bookings.snapshot, request)
        self._emptied = self._neighbours.emptied_rows()
        self._cool_down = request.cool_down(0.0)
        self._resting = nodes_cooling_down(bookings.snapshot, request.last_migrations, request.now, self._cool_down)

    def why_rest(self, one: Candidate) -> str:
        """Why a pod that need not go stays for now; empty if it may go."""
        if one.must or one.pod.node not in self._resting:
            return ""
        return cool_down_message(self._cool_down, one.pod.node)

    def find(self, one: Candidate) -> str | None:
        rows = one.among(self._bookings.feasible_rows(one.pod.key))
        welcome = self._neighbours.rows_kept_cool(one.pod, rows[~self._emptied[rows]])
        if not one.must and self._neighbours.would_be_emptied(one.pod, self._row(one.pod.node)):
            welcome = welcome[:0]
        return self._best(one, welcome if len(welcome) or not one.must else rows)

    def take(self, one: Candidate, target: str) -> None:
        self._bookings.reserve_target(one.pod.key, target)
        self._bookings.end_wave()
        for name, sign in ((one.pod.node, -1), (target, 1)):
            self._neighbours.add_pod(one.pod, self._row(name), sign)

    def _best(self, one: Candidate, rows: RowIndex) -> str | None:
        names = {self._snapshot.rows.name(row) or "": row for row in rows.tolist()}
        favourite = self._bookings.preferred_node(one.pod.key) if names else None
        if favourite in names:
            return favourite
        slots = slots_by_row(self._snapshot, one.pod.shape.amounts)
        return min(names, key=lambda name: (-int(slots[names[name]]), name), default=None)

    def why_none(self, one: Candidate) -> str:
        if len(right := one.among(self._bookings.feasible_rows(one.pod.key))):
            told = "Defragmentation empties them or its node, or LoadAware would find them busy"
            return f"{counted_noun(len(right), 'node')} would put that right, and other plugins are against it: {told}"
        rows = np.flatnonzero(self._snapshot.nodes.present[self._snapshot.rows.every])
        survey = self._bookings.survey_nodes(one.pod.key, rows[rows != self._snapshot.rows.find_row(one.pod.node)])
        others = [name for name in survey.feasible if name != one.pod.node]
        if others:
            return f"{counted_noun(len(others), 'other node', 'have')} room for it, and none would put that right"
        return f"no other node takes it: {survey.message}" if survey.message else "there is no other node"

    def _row(self, name: str) -> int:
        row = self._snapshot.rows.find_row(name)
        assert row is not None, name
        return row


# --- who is looked at -------------------------------------------------------------------------------------------------

_BOUND: Final = "requested"


def pods_on_nodes(snapshot: Snapshot, pods: PodFilter, kinds_left_out: Collection[str] = ()) -> list[Occupant]:
    """The pods on nodes that a plugin is about, by name; not those that belong to their node, come or leave."""
    found = [
        one
        for one in snapshot.pods.known.values()
        if one.ledger == _BOUND
        and one.assumed_at is None
        and not one.leaving
        and not stays_with_node(one.pod)
        and not pods.refusal_reason(one.pod)
        and not any(owner.kind in kinds_left_out for owner in one.pod.metadata.owner_references or ())
    ]
    return sorted(found, key=lambda one: key_of(one.pod))


def creation_time(pod: Pod) -> float:
    """When it was made; a pod that does not say is as old as can be."""
    return time_of(pod.metadata.creation_timestamp) or 0.0


def eviction_order(one: Occupant) -> tuple[int, float, str, str]:
    """Lower priority first, then the newer, then by name."""
    return pod_priority(one.pod), -creation_time(one.pod), one.pod.metadata.namespace or "", one.pod.metadata.name
