"""RemoveDuplicates: moves replicas that share a node although there are nodes without one.

    args: {excludeOwnerKinds: [ReplicaSet]}

Replicas are pods of one owner with the same images. A node should have no more of them than an even share: their number
divided by the number of nodes that they could run on, rounded up.
"""

from __future__ import annotations

import math
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
    arguments_check,
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


def plan_duplicates(snapshot: Snapshot, request: PlanRequest) -> Plan:
    arguments = read_plugin_arguments(DuplicatesArgs, request.arguments, NAME)

    def find_candidates(simulation: MoveSimulation) -> Iterator[Candidate]:
        groups: dict[object, list[Occupant]] = {}
        for occupant in pods_on_nodes(snapshot, arguments.pod_filter(), arguments.exclude_owner_kinds):
            owner = controller_of(occupant.pod)
            if owner is not None:
                images = tuple(sorted(container.image or "" for container in occupant.pod.spec.containers or ()))
                groups.setdefault((owner.uid, images), []).append(occupant)
        eligible = EligibleNodes(snapshot)
        for replicas in groups.values():
            if len(replicas) > 1:
                nodes = max(len(eligible.names_for(replicas[0].pod)), 1)
                yield from _surplus_replicas(simulation, replicas, math.ceil(len(replicas) / nodes))

    return plan_candidates(NAME, snapshot, request, find_candidates)


def _surplus_replicas(simulation: MoveSimulation, replicas: Sequence[Occupant], share: int) -> Iterator[Candidate]:
    """The replicas on nodes with more than their share, until they have no more than that."""
    counts = Counter(occupant.node for occupant in replicas)
    for occupant in sorted(replicas, key=eviction_order):
        if counts[occupant.node] > share:
            count = counts[occupant.node]
            violation = f"is one of {count} replicas on {occupant.node}, where {share} would be its share"
            select_rows = partial(_rows_below_share, simulation.snapshot, counts, share)
            yield Candidate(occupant, violation, select_rows, must_move=False)
            # The candidate has been moved by now, or it stays.
            moved = simulation.occupant(occupant.key)
            counts[occupant.node] -= 1
            counts[moved.node if moved else occupant.node] += 1


def _rows_below_share(snapshot: Snapshot, counts: Counter[str], share: int, rows: RowIndex) -> RowIndex:
    is_below = [counts[snapshot.rows.name(row) or ""] < share for row in rows.tolist()]
    below: RowIndex = rows[np.array(is_below, np.bool_)] if is_below else rows
    return below


PLUGIN = Planner(name=NAME, point="balance", plan=plan_duplicates, check=arguments_check(DuplicatesArgs, NAME))
