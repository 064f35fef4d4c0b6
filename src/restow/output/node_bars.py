"""How full the nodes are: one bar for each node, one colour for each workload.

Takes typed nodes and pods, returns `NodeUse` values and, from them, a table for the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from restow.model.objects import Node, Pod
from restow.model.pods import is_finished
from restow.model.quantity import parse_amount
from restow.model.resources import pod_requests

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green", "bright_yellow")
CELL = "█"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
IDLE = "·"


class NodeUse(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of a node: allocatable, and requested by the pods of each workload."""

    node: str
    allocatable: int
    requested: Mapping[str, int]
    pods: int
    schedulable: bool = True

    @property
    def used(self) -> int:
        return sum(self.requested.values())

    @property
    def idle(self) -> int:
        return max(self.allocatable - self.used, 0) if self.schedulable else 0


def node_uses(nodes: Iterable[Node], pods: Iterable[Pod], resource: str) -> list[NodeUse]:
    """The use of `resource` on every node, by node name. Counts bound pods that have not finished."""
    requested: dict[str, dict[str, int]] = {}
    counts: dict[str, int] = {}
    for pod in pods:
        node_name = pod.spec.node_name
        if not node_name or is_finished(pod):
            continue
        by_workload = requested.setdefault(node_name, {})
        workload = workload_of(pod)
        by_workload[workload] = by_workload.get(workload, 0) + pod_requests(pod).get(resource, 0)
        counts[node_name] = counts.get(node_name, 0) + 1
    return [
        NodeUse(
            node=name,
            allocatable=parse_amount(resource, (node.status.allocatable or {}).get(resource, "0")),
            requested=dict(sorted(requested.get(name, {}).items())),
            pods=counts.get(name, 0),
            schedulable=not node.spec.unschedulable,
        )
        for name, node in sorted((node.metadata.name or "", node) for node in nodes)
    ]


def workload_of(pod: Pod) -> str:
    """The name of the pod's workload: its `app` label, or its own name."""
    return (pod.metadata.labels or {}).get("app") or pod.metadata.name or ""


def count_fitting_pods(uses: Iterable[NodeUse], request: int) -> int:
    """How many more pods with this request fit on the nodes."""
    return sum(use.idle // request for use in uses)


def node_table(
    uses: Sequence[NodeUse],
    *,
    unit: int = 1000,
    cells_per_unit: int = 4,
    coloured: bool = True,
    known: Sequence[str] = (),
) -> Table:
    """A table with a bar for each node; `unit` base units make one printed unit (1000 millicores are one core)."""
    brushes = brushes_of(uses, coloured, known)
    result = Table(box=None, pad_edge=False)
    result.add_column("node")
    result.add_column("requested, by workload", no_wrap=True)
    result.add_column("idle", justify="right")
    result.add_column("pods", justify="right")
    for use in uses:
        idle = f"{use.idle / unit:g}" if use.schedulable else "cordoned"
        result.add_row(use.node, _bar(use, brushes, unit, cells_per_unit), idle, str(use.pods))
    return result


def legend(uses: Sequence[NodeUse], *, coloured: bool = True, known: Sequence[str] = ()) -> Text:
    """The workloads with their colours, or letters."""
    brushes = brushes_of(uses, coloured, known)
    parts = [Text.assemble((brush.cell * 2, brush.colour), f" {workload}  ") for workload, brush in brushes.items()]
    return Text.assemble(*parts, (IDLE * 2, "dim"), " idle")


class Brush(msgspec.Struct, frozen=True):
    """How a workload is drawn: by colour, or without colours by letter."""

    cell: str
    colour: str


def brushes_of(uses: Iterable[NodeUse], coloured: bool, known: Sequence[str] = ()) -> dict[str, Brush]:
    """A brush for each workload. Those in `known` have the same brush in every picture."""
    present = {name for use in uses for name in use.requested}
    return {
        name: Brush(CELL if coloured else LETTERS[index % len(LETTERS)], COLOURS[index % len(COLOURS)])
        for index, name in enumerate([*known, *sorted(present.difference(known))])
        if name in present
    }


def _bar(use: NodeUse, brushes: Mapping[str, Brush], unit: int, cells_per_unit: int) -> Text:
    total = use.allocatable * cells_per_unit // unit
    bar = Text()
    drawn = 0
    reached = 0
    for workload, request in use.requested.items():
        # Round the running total, not each part: the cells of a bar then add up to its length.
        reached += request
        cells = reached * cells_per_unit // unit - drawn
        bar.append(brushes[workload].cell * cells, style=brushes[workload].colour)
        drawn += cells
    bar.append(IDLE * max(total - drawn, 0), style="dim")
    return bar
