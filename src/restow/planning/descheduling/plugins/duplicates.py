"""RemoveDuplicates: replicas that share a node although there are nodes without one.

    args: {excludeOwnerKinds: [ReplicaSet]}

Replicas are pods of one owner with the same images. A node should have no more of them than an even share: their number
by the nodes that they could be on, rounded up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from restow.model.cluster import Occupant, RowIndex
from restow.model.pods import controller_of
from restow.model.snapshot import Snapshot
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.plugins.candidates import (
    Candidate,
    CandidateArguments,
    eviction_order,
    plan_candidates,
    pods_on_nodes,
    read_plugin_arguments,
)
from restow.planning.descheduling.plugins.eligible_nodes import EligibleNodes
from restow.planning.move_simulation import MoveSimulation
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest

NAME = "RemoveDuplicates"


class DuplicatesArgs(CandidateArguments, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    exclude_owner_kinds: tuple[str, ...] = ()


def plan(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(DuplicatesArgs, request.arguments, NAME)

    def search(bookings: MoveSimulation) -> Iterator[Candidate]:
        groups: dict[object, list[Occupant]] = {}
        for one in pods_on_nodes(snapshot, arguments.pod_filter(), arguments.exclude_owner_kinds):
            owner = controller_of(one.pod)
            if owner is not None:
                images = tuple(sorted(each.image or "" for each in one.pod.spec.containers or ()))
                groups.setdefault((owner.uid, images), []).append(one)
        eligible = EligibleNodes(snapshot)
        for group in groups.values():
            if len(group) > 1:
                share = -(-len(group) // max(len(eligible.names_for(group[0].pod)), 1))
                yield from _surplus(bookings, group, share)

    return plan_candidates(NAME, snapshot, request, search)


def _surplus(bookings: MoveSimulation, group: Sequence[Occupant], share: int) -> Iterator[Candidate]:
    """The replicas beyond the even share of their node, as long as they are."""
    counts = Counter(one.node for one in group)
    for one in sorted(group, key=eviction_order):
        if counts[one.node] > share:
            why = f"is one of {counts[one.node]} replicas on {one.node}, where {share} would be its share"
            yield Candidate(one, why, partial(_below, bookings.snapshot, counts, share), must=False)
            now = bookings.occupant(one.key)
            counts[one.node] -= 1
            counts[now.node if now else one.node] += 1


def _below(snapshot: Snapshot, counts: Counter[str], share: int, rows: RowIndex) -> RowIndex:
    keep = [counts[snapshot.rows.name(row) or ""] < share for row in rows.tolist()]
    kept: RowIndex = rows[np.array(keep, np.bool_)] if keep else rows
    return kept


PLUGIN = Planner(
    name=NAME, point="balance", plan=plan, check=lambda written: read_plugin_arguments(DuplicatesArgs, written, NAME)
)
