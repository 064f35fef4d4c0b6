"""Results on stdout: JSON or YAML for programs, or a table for people."""

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

from restow.model.counted_nouns import counted_noun
from restow.output import plan_figures
from restow.planning.plan import Plan, PlanRefusal, group_by_reason, plan_document
from restow.planning.replay import ReplayResult
from restow.snapshots.explanation import Explanation
from restow.snapshots.offline import Schedule

R = TypeVar("R", bound=msgspec.Struct)
EXAMPLES = 3
UNWRAPPED = 10_000


def print_result(result: R, text: Callable[[R], RenderableType], output: str) -> None:
    """Print a result in the format `output`: table, json or yaml. `text` renders the table."""
    document: Any = plan_document(result) if isinstance(result, Plan) else result
    if output == "json":
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    elif output == "yaml":
        sys.stdout.write(yaml.safe_dump(msgspec.to_builtins(document), sort_keys=False, allow_unicode=True))
    else:
        _print(text(result))
    sys.stdout.flush()


def _print(text: RenderableType) -> None:
    """Print a table. Into files and pipes, lines have no trailing spaces."""
    console = Console(highlight=False, width=_width())
    if console.is_terminal:
        console.print(text)
        return
    with console.capture() as captured:
        console.print(text)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _width() -> int | None:
    """Lines are wrapped on terminals only, so that grep finds whole lines elsewhere."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else UNWRAPPED


def plan_table(result: Plan, max_moves: int | None = None) -> RenderableType:
    waves = counted_noun(len({move.wave for move in result.moves}), "wave")
    summary = f"{counted_noun(len(result.moves), 'move')} in {waves}" if result.moves else "no moves"
    parts: list[RenderableType] = [Text(f"{result.strategy}: {summary}", style="bold")]
    moves = _table("order", "wave", "namespace", "pod", "from", "to")
    for move in result.moves:
        moves.add_row(str(move.order), str(move.wave), move.namespace, move.pod, move.source, move.target)
    places = _table("namespace", "pending pod", "node")
    for place in result.places:
        places.add_row(place.namespace, place.pod, place.node)
    effect = _table("effect", "before", "after")
    for row in plan_figures.figure_rows(result):
        effect.add_row(*row)
    parts += [table for table in (moves, places, effect, _refusal_table(result.refusals)) if table.row_count]
    if verdict := plan_figures.verdict(result, max_moves):
        parts.append(Text(verdict, style="bold"))
    return Group(*parts)


def _refusal_table(refusals: Iterable[PlanRefusal]) -> Table:
    """The pods that are not moved or placed, by reason, the most frequent first."""
    table = _table("pods", "reason", "examples")
    for reason, names in group_by_reason(refusals):
        table.add_row(str(len(names) or ""), reason, _first_names(names))
    return table


def replay_table(result: ReplayResult) -> RenderableType:
    moves = f"{counted_noun(result.moves, 'move')} in {counted_noun(result.waves, 'wave')}"
    size = f"{moves}, {counted_noun(result.places, 'place')}"
    verdict = "valid" if result.valid else f"invalid, {counted_noun(len(result.defects), 'defect')}"
    parts: list[RenderableType] = [Text(f"{verdict}: {size}", style="bold")]
    defects = _table("order", "wave", "namespace", "pod", "defect")
    for defect in result.defects:
        order, wave = str(defect.order or ""), str(defect.wave or "")
        defects.add_row(order, wave, defect.namespace, defect.pod, defect.reason)
    return Group(*parts, *([defects] if result.defects else []))


def schedule_table(result: Schedule) -> RenderableType:
    placed = _table("namespace", "pod", "node")
    for placement in result.placements:
        placed.add_row(placement.namespace, placement.pod, placement.node)
    unschedulable = _table("namespace", "pod", "reason")
    for refusal in result.unschedulable:
        unschedulable.add_row(refusal.namespace, refusal.pod, refusal.message)
    remaining = sum(bool(refusal.pod) for refusal in result.unschedulable)
    summary = f"{counted_noun(len(result.placements), 'pod')} can be placed, {remaining} cannot"
    if not result.placements and not remaining:
        summary = "no pods are pending"
    parts: list[RenderableType] = [Text(summary, style="bold")]
    parts += [table for table in (placed, unschedulable) if table.row_count]
    return Group(*parts)


def explanation_text(result: Explanation) -> RenderableType:
    parts: list[RenderableType] = [Text(f"{result.namespace}/{result.pod} {result.message}", style="bold")]
    if others := [node for node in result.feasible if node != result.node]:
        parts.append(Text(f"feasible nodes: {_first_names(others)}"))
    if result.held:
        nodes = [f"{node.node} ({_first_names(node.reservations)})" for node in result.held]
        parts.append(Text(f"blocked only by reservations: {_first_names(nodes)}"))
    if result.refusals:
        table = _table("nodes", "reason", "examples")
        for refusal in result.refusals:
            table.add_row(str(len(refusal.nodes)), refusal.reason, _first_names(refusal.nodes))
        parts.append(table)
    return Group(*parts)


def _first_names(names: list[str]) -> str:
    shown = ", ".join(names[:EXAMPLES])
    return f"{shown} and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else shown


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
