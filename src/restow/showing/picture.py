"""How full the nodes are, as people would rather look at it: one bar per node, one colour per workload.

In go typed nodes and pods, out come `NodeUse` values and, from them, a terminal table. Pure: whoever shows it decides
where and how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from restow.model.objects import Node, Pod
from restow.model.pods import is_finished
from restow.model.quantity import amount
from restow.model.resources import pod_requests

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green", "bright_yellow")
CELL = "█"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
IDLE = "·"


class NodeUse(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of one node: what it offers, and what each workload's pods on it request."""

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
    """What the bound, unfinished pods request of `resource` on each node, by name of node and of workload."""
    requested: dict[str, dict[str, int]] = {}
    counts: dict[str, int] = {}
    for pod in pods:
        where = pod.spec.node_name
        if not where or is_finished(pod):
            continue
        shares = requested.setdefault(where, {})
        who = workload_of(pod)
        shares[who] = shares.get(who, 0) + pod_requests(pod).get(resource, 0)
        counts[where] = counts.get(where, 0) + 1
    return [
        NodeUse(
            node=name,
            allocatable=amount(resource, (node.status.allocatable or {}).get(resource, "0")),
            requested=dict(sorted(requested.get(name, {}).items())),
            pods=counts.get(name, 0),
            schedulable=not node.spec.unschedulable,
        )
        for name, node in sorted((node.metadata.name or "", node) for node in nodes)
    ]


def workload_of(pod: Pod) -> str:
    """What people call the pod's workload: its `app` label, or its own name."""
    return (pod.metadata.labels or {}).get("app") or pod.metadata.name or ""


def slots(uses: Iterable[NodeUse], request: int) -> int:
    """How many pods with this request fit, as the pods lie now."""
    return sum(use.idle // request for use in uses)


def table(
    uses: Sequence[NodeUse],
    *,
    unit: int = 1000,
    cells_per_unit: int = 4,
    coloured: bool = True,
    known: Sequence[str] = (),
) -> Table:
    """The nodes as bars; `unit` base units are one printed unit (1000 millicores are one core)."""
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
    """Which colour, or letter, is which workload."""
    brushes = brushes_of(uses, coloured, known)
    parts = [Text.assemble((brush.cell * 2, brush.colour), f" {who}  ") for who, brush in brushes.items()]
    return Text.assemble(*parts, (IDLE * 2, "dim"), " idle")


class Brush(msgspec.Struct, frozen=True):
    """How a workload is drawn: by colour where there are colours, else by letter."""

    cell: str
    colour: str


def brushes_of(uses: Iterable[NodeUse], coloured: bool, known: Sequence[str] = ()) -> dict[str, Brush]:
    """Workloads that are `known` have the same brush in every picture, whoever else is in it."""
    there = {name for use in uses for name in use.requested}
    return {
        name: Brush(CELL if coloured else LETTERS[index % len(LETTERS)], COLOURS[index % len(COLOURS)])
        for index, name in enumerate([*known, *sorted(there.difference(known))])
        if name in there
    }


def _bar(use: NodeUse, brushes: Mapping[str, Brush], unit: int, cells_per_unit: int) -> Text:
    total = use.allocatable * cells_per_unit // unit
    bar = Text()
    drawn = 0
    reached = 0
    for who, request in use.requested.items():
        reached += request
        cells = reached * cells_per_unit // unit - drawn
        bar.append(brushes[who].cell * cells, style=brushes[who].colour)
        drawn += cells
    bar.append(IDLE * max(total - drawn, 0), style="dim")
    return bar
