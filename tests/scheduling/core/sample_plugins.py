"""Small plugins with obvious answers, and short ways to run cycles on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from restow.model.cluster import Mask, Which, node_filters
from restow.model.objects import Node, Pod
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import (
    BEST,
    SUCCESS,
    Cycle,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    Reach,
    Refusal,
    ReservePlugin,
    ScorePlugin,
    Scores,
    Verdict,
)
from restow.scheduling.schedule_result import NodeFound, NoNodeFound
from tests.model.cluster.builders import node, pod


class RoomFit(FilterPlugin, ScorePlugin):
    """Room for the pod; the emptier the better, by cpu."""

    name: ClassVar[str] = "Fit"

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return node_filters.rows_that_fit(cycle.snapshot.room, cycle.pod_class.shape.amounts, rows)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        short = node_filters.rows_short_of(cycle.snapshot.room, cycle.pod_class.shape.amounts, rows)
        return [Refusal(f"Insufficient {name}" if name != "pods" else "Too many pods", m) for name, m in short.items()]

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        room = cycle.snapshot.room
        column = room.resources.column("cpu")
        if column >= len(room.free):
            return np.zeros(len(cycle.snapshot.rows.numbers(rows)), np.int64)
        offered, free = room.allocatable.cells[column][rows], room.free[column][rows]
        return np.where(offered > 0, np.clip(free, 0, None) * BEST // np.maximum(offered, 1), 0)


class NodeEligible(FilterPlugin):
    """Cordons, taints and node selectors: what the Node alone decides."""

    name: ClassVar[str] = "Eligible"
    reach: ClassVar[Reach] = Reach.NODE

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        shape, nodes = cycle.pod_class.shape, cycle.snapshot.nodes
        return (
            node_filters.schedulable_rows(nodes, shape.fields.tolerations, rows)
            & node_filters.rows_with_tolerated_taints(nodes, shape.fields.tolerations, rows)
            & node_filters.selected_rows(nodes, shape.constraint, rows)
        )

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return [Refusal("node(s) were not eligible", ~self.filter(cycle, rows), resolvable=False)]


class OnePodPerNode(FilterPlugin):
    """No two pods of the same label app on a node; asked about the cluster as a whole."""

    name: ClassVar[str] = "Apart"
    reach: ClassVar[Reach] = Reach.CLUSTER

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        snapshot, app = cycle.snapshot, (cycle.pod.metadata.labels or {}).get("app")
        names = [snapshot.rows.name(row) for row in snapshot.rows.numbers(rows)]
        there = [
            name is not None
            and any((one.pod.metadata.labels or {}).get("app") == app for one in snapshot.occupants(name))
            for name in names
        ]
        return ~np.array(there, np.bool_) if app else np.ones(len(names), np.bool_)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return [Refusal("node(s) had one already", ~self.filter(cycle, rows))]


class ScoresLabelNumber(ScorePlugin):
    """Scores in proportion to the number in a node's label n; the largest of the feasible ones gets all."""

    name: ClassVar[str] = "Numbered"
    reach: ClassVar[Reach] = Reach.NODE

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        found = [cycle.snapshot.nodes.get(row) for row in cycle.snapshot.rows.numbers(rows)]
        return np.array([int((one.metadata.labels or {}).get("n", "0")) if one else 0 for one in found], np.int64)

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        return raw * BEST // max(1, int(raw.max()))


class AnswersAsTold(FilterPlugin):
    """Answers PreFilter with a given verdict, and refuses given nodes."""

    name: ClassVar[str] = "Says"

    def __init__(self, verdict: Verdict = SUCCESS, *, refuses: Iterable[str] = (), name: str = "Says") -> None:
        super().__init__()
        self.verdict = verdict
        self.refuses = frozenset(refuses)
        self.name = name  # type: ignore[misc]
        self.reason = f"{name} refuses"
        self.asked: list[str] = []

    def pre_filter(self, cycle: Cycle) -> Verdict:
        self.asked.append("pre_filter")
        return self.verdict

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        self.asked.append("filter")
        names = map(cycle.snapshot.rows.name, cycle.snapshot.rows.numbers(rows))
        return np.array([name not in self.refuses for name in names], np.bool_)

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return [Refusal(self.reason, ~self.filter(cycle, rows))]


class RecordsCalls(ReservePlugin, PermitPlugin):
    """Records its calls, and gives fixed answers."""

    name: ClassVar[str] = "Keeps"

    def __init__(
        self,
        journal: list[str],
        reserve: Verdict = SUCCESS,
        permit: tuple[Verdict, float] = (SUCCESS, 0),
        name: str = "a",
    ) -> None:
        super().__init__()
        self.journal = journal
        self.answers = reserve, permit
        self.name = name  # type: ignore[misc]

    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        self.journal.append(f"reserve {self.name} {cycle.pod.metadata.name}")
        return self.answers[0]

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.journal.append(f"unreserve {self.name} {cycle.pod.metadata.name}")

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        return self.answers[1]


class PostFilterAsTold(PostFilterPlugin):
    name: ClassVar[str] = "Tries"

    def __init__(self, verdict: Verdict, node: str = "") -> None:
        super().__init__()
        self.answer = verdict, node
        self.seen: Mapping[str, Sequence[Refusal]] = {}

    def post_filter(self, cycle: Cycle, refused: Mapping[str, Sequence[Refusal]]) -> tuple[Verdict, str]:
        self.seen = refused
        return self.answer


def cluster(*nodes: Node, pods: Iterable[Pod] = ()) -> Snapshot:
    snapshot = Snapshot()
    for one in nodes:
        snapshot.apply_node(one)
    for each in pods:
        snapshot.apply_pod(each)
    return snapshot


def nodes(count: int, **fields: Any) -> list[Node]:
    return [node(f"n{number}", **fields) for number in range(count)]


def cycle(snapshot: Snapshot, one: Pod | None = None) -> Cycle:
    return Cycle(one or pod("p"), snapshot, 0.0)


def node_of(result: NodeFound | NoNodeFound) -> str:
    """The node of a pod that was placed."""
    assert isinstance(result, NodeFound), result
    return result.node


def refused(result: NodeFound | NoNodeFound) -> NoNodeFound:
    """The result of a pod that was not placed."""
    assert isinstance(result, NoNodeFound), result
    return result


Make = Callable[[], Plugin]
