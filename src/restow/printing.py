"""Results on stdout: the same value as JSON for programs or as text for people."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from restow.offline import Explanation, Schedule

R = TypeVar("R", bound=msgspec.Struct)
EXAMPLES = 3


def show(result: R, text: Callable[[R], RenderableType], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        Console(highlight=False).print(text(result))


def schedule_table(result: Schedule) -> RenderableType:
    placed = _table("namespace", "pod", "node")
    for seat in result.placements:
        placed.add_row(seat.namespace, seat.pod, seat.node)
    waiting = _table("namespace", "pod", "why not")
    for one in result.unschedulable:
        waiting.add_row(one.namespace, one.pod, one.message)
    waits = sum(bool(one.pod) for one in result.unschedulable)
    counted = f"{len(result.placements)} pods would be placed, {waits} would wait"
    parts: list[RenderableType] = [Text(counted, style="bold")]
    parts += [table for table in (placed, waiting) if table.row_count]
    return Group(*parts)


def explanation_text(result: Explanation) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{result.namespace}/{result.pod} {result.message}", style="bold")]
    if result.feasible:
        parts.append(Text(f"could go to: {_some(result.feasible)}"))
    if result.refusals:
        table = _table("nodes", "why not", "for example")
        for why in result.refusals:
            table.add_row(str(len(why.nodes)), why.reason, _some(why.nodes))
        parts.append(table)
    return Group(*parts)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:EXAMPLES])
    return f"{shown} and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else shown


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table
