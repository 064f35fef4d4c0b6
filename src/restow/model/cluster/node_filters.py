"""Filter primitives: which nodes pass one hard constraint, as a mask over rows.

Pure functions of the tables that they read and of what a pod asks for. Each takes the rows to decide (all by default),
so that an `IncrementalVector` can keep a mask up to date at the cost of the rows that changed. Rows without a Node
offer nothing and are not `present`; what a mask about labels or taints says of them means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from restow.model.affinity import FieldRequirement, NodeConstraint, NodePreference, NodeTerm
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.resource_columns import Amounts
from restow.model.cluster.room import LIMIT, Columns, Room, columns_of
from restow.model.cluster.rows import Mask, Which
from restow.model.objects import Toleration
from restow.model.selectors import Requirement
from restow.model.taints import UNSCHEDULABLE, untolerated_taint


def rows_that_fit(room: Room, amounts: Amounts, rows: Which | None = None, *, after_leaving: bool = False) -> Mask:
    """Rows with enough free of every requested resource; `after_leaving` adds what terminating pods will free."""
    chosen = room.rows.every if rows is None else rows
    columns, asked, most = _demand(amounts)
    if most >= len(room.free):
        return ~_all_rows(room, chosen)
    part = room.excerpt(chosen)
    free = part.of(room.free)[columns]
    if after_leaving:
        free = free + part.of(room.releasing.cells)[columns]
    mask: Mask = np.logical_and.reduce(free >= asked)
    return mask


@lru_cache(maxsize=1024)
def _demand(amounts: Amounts) -> tuple[Columns, NDArray[np.int64], int]:
    """The requests above zero: their columns, their amounts as an array of one line per resource, the last column."""
    asked = [(column, min(amount, LIMIT + 1)) for column, amount in amounts if amount > 0]
    columns = [column for column, _ in asked]
    return columns_of(columns), np.array([[amount] for _, amount in asked], np.int64), max(columns, default=-1)


def fits_on_row(room: Room, amounts: Amounts, row: int) -> bool:
    """`fits` for a single row, where integers are faster than arrays."""
    free = room.free_at
    columns = len(free)
    for column, amount in amounts:
        if amount <= 0:
            continue
        if column >= columns or free[column][row] < amount:
            return False
    return True


def rows_short_of(room: Room, amounts: Amounts, rows: Which | None = None) -> dict[str, Mask]:
    """The rows that have too little free of a resource, by the name of each resource that any row lacks."""
    chosen = room.rows.every if rows is None else rows
    short = {room.resources.name(column): ~rows_with_enough(room, column, amount, chosen) for column, amount in amounts}
    return {name: short[name] for name in sorted(short) if short[name].any()}


def rows_with_enough(room: Room, column: int, amount: int, rows: Which) -> Mask:
    """Rows with `amount` free of one resource. A request of nothing is never refused, even where free is negative."""
    return rows_that_fit(room, ((column, amount),), rows)


def rows_that_offer(room: Room, column: int, amount: int, rows: Which) -> Mask:
    """Rows that offer `amount` of one resource in all, free or not."""
    if column >= len(room.free):
        return ~_all_rows(room, rows)
    mask: Mask = room.allocatable.cells[column][rows] >= amount
    return mask


def schedulable_rows(nodes: NodeTable, tolerations: Sequence[Toleration], rows: Which | None = None) -> Mask:
    """Nodes that are not cordoned; all of them for a pod that tolerates it."""
    chosen = nodes.rows.every if rows is None else rows
    cordoned = nodes.unschedulable[chosen]
    return ~cordoned if untolerated_taint([UNSCHEDULABLE], tolerations) else np.ones_like(cordoned)


def rows_with_tolerated_taints(nodes: NodeTable, tolerations: Sequence[Toleration], rows: Which | None = None) -> Mask:
    """Nodes without a hard taint that the pod does not tolerate: decided once per distinct set of taints."""
    chosen = nodes.rows.every if rows is None else rows
    accepted = np.array([not untolerated_taint(taints, tolerations) for taints in nodes.taint_sets], np.bool_)
    return accepted[nodes.taints[chosen]]


def selected_rows(nodes: NodeTable, constraint: NodeConstraint, rows: Which | None = None) -> Mask:
    """Nodes that the node selector and the required node affinity accept."""
    chosen = nodes.rows.every if rows is None else rows
    mask = np.ones_like(nodes.present[chosen])
    for key, value in constraint.equal:
        mask &= nodes.labels.mask(Requirement(key, "In", (value,)), chosen)
    if constraint.terms is None:
        return mask
    accepted = np.zeros_like(mask)
    for term in constraint.terms:
        accepted |= matches_term(nodes, term, chosen)
    return mask & accepted


def matches_term(nodes: NodeTable, term: NodeTerm, rows: Which) -> Mask:
    """Nodes that one term of a node affinity accepts."""
    mask = np.full_like(nodes.present[rows], not term.problem)
    for requirement in term.labels:
        mask &= nodes.labels.mask(requirement, rows)
    for field in term.fields:
        mask &= _matches_field(nodes, field, rows)
    return mask


def preference_scores(nodes: NodeTable, preference: NodePreference, rows: Which) -> NDArray[np.int64]:
    """The weights of the preferences that each of these nodes meets, added up."""
    scores = np.zeros(nodes.present[rows].shape, np.int64)
    for weight, term in preference.terms:
        scores += weight * matches_term(nodes, term, rows)
    return scores


def _matches_field(nodes: NodeTable, field: FieldRequirement, rows: Which) -> Mask:
    """A field requirement can only be about the name of the node, so at most one row differs from all others."""
    mask = np.full_like(nodes.present[rows], field.matches("a name that no node has"))
    row = nodes.rows.find_row(field.value)
    if row is not None:
        mask[row if isinstance(rows, slice) else rows == row] = field.matches(field.value)
    return mask


def _all_rows(room: Room, rows: Which) -> Mask:
    return np.ones(room.free[0][rows].shape, np.bool_)
