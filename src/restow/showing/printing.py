"""Results on stdout: the same value as JSON or YAML for programs or as text for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
import yaml
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from restow.model.words import number_of
from restow.planning.plan import Plan, Refusal, by_reason, printed
from restow.planning.replay import Replay
from restow.showing import figures
from restow.snapshots.explaining import Explanation
from restow.snapshots.offline import Schedule

R = TypeVar("R", bound=msgspec.Struct)
EXAMPLES = 3
UNWRAPPED = 10_000


def show(result: R, text: Callable[[R], RenderableType], output: str) -> None:
    """Print a result as `output` says: table, json or yaml."""
    document: Any = printed(result) if isinstance(result, Plan) else result
    if output == "json":
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    elif output == "yaml":
        sys.stdout.write(yaml.safe_dump(msgspec.to_builtins(document), sort_keys=False, allow_unicode=True))
    else:
        _print(text(result))
    sys.stdout.flush()


def _print(text: RenderableType) -> None:
    """Lines end where their words do, unless a terminal shows them."""
    console = Console(highlight=False, width=_width())
    if console.is_terminal:
        console.print(text)
        return
    with console.capture() as captured:
        console.print(text)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _width() -> int | None:
    """Lines are as long as they are for grep and files; on a terminal they are wrapped."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else UNWRAPPED


def plan_table(result: Plan) -> RenderableType:
    waves = number_of(len({move.wave for move in result.moves}), "wave")
    told = f"{number_of(len(result.moves), 'move')} in {waves}" if result.moves else "nothing to move"
    parts: list[RenderableType] = [Text(f"{result.strategy}: {told}", style="bold")]
    moves = _table("order", "wave", "namespace", "pod", "from", "to")
    for move in result.moves:
        moves.add_row(str(move.order), str(move.wave), move.namespace, move.pod, move.source, move.target)
    places = _table("namespace", "pending pod", "node")
    for place in result.places:
        places.add_row(place.namespace, place.pod, place.node)
    effect = _table("what it brings", "before", "after")
    for row in figures.rows(result):
        effect.add_row(*row)
    parts += [table for table in (moves, places, effect, _refusal_table(result.refusals)) if table.row_count]
    if verdict := figures.verdict(result):
        parts.append(Text(verdict, style="bold"))
    return Group(*parts)


def _refusal_table(refusals: Iterable[Refusal]) -> Table:
    """Pods that stay, by reason, most first."""
    table = _table("pods", "why not", "for example")
    for reason, names in by_reason(refusals):
        table.add_row(str(len(names) or ""), reason, _some(names))
    return table


def replay_table(result: Replay) -> RenderableType:
    moves = f"{number_of(result.moves, 'move')} in {number_of(result.waves, 'wave')}"
    size = f"{moves}, {number_of(result.places, 'place')}"
    verdict = "valid" if result.valid else f"not valid, {number_of(len(result.defects), 'defect')}"
    parts: list[RenderableType] = [Text(f"{verdict}: {size}", style="bold")]
    defects = _table("order", "wave", "namespace", "pod", "what is wrong")
    for one in result.defects:
        defects.add_row(str(one.order or ""), str(one.wave or ""), one.namespace, one.pod, one.reason)
    return Group(*parts, *([defects] if result.defects else []))


def schedule_table(result: Schedule) -> RenderableType:
    placed = _table("namespace", "pod", "node")
    for seat in result.placements:
        placed.add_row(seat.namespace, seat.pod, seat.node)
    waiting = _table("namespace", "pod", "why not")
    for one in result.unschedulable:
        waiting.add_row(one.namespace, one.pod, one.message)
    waits = sum(bool(one.pod) for one in result.unschedulable)
    told = f"{number_of(len(result.placements), 'pod')} would be placed, {waits} would wait"
    parts: list[RenderableType] = [Text(told, style="bold")]
    parts += [table for table in (placed, waiting) if table.row_count]
    return Group(*parts)


def explanation_text(result: Explanation) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{result.namespace}/{result.pod} {result.message}", style="bold")]
    if others := [node for node in result.feasible if node != result.node]:
        parts.append(Text(f"could go to: {_some(others)}"))
    if result.held:
        nodes = [f"{one.node} ({_some(one.reservations)})" for one in result.held]
        parts.append(Text(f"could go there if reservations held nothing: {_some(nodes)}"))
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
        table.add_column(column, overflow="fold")
    return table
