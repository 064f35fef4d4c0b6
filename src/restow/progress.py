"""How a plan is carried out, for people to watch: a table that changes on a terminal, else a line for each change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from restow.control.descheduler import Progress
from restow.migration.reservation import target_node
from restow.model.objects import JobPhase, PodMigrationJob
from restow.planning.plan import Move, Plan

_STYLES = {JobPhase.SUCCEED: "green", JobPhase.FAILED: "red", JobPhase.ABORTED: "red", JobPhase.RUNNING: "yellow"}
_MOST_ROWS = 25


class Shown(msgspec.Struct, frozen=True):
    """What is shown, brought up to date."""

    update: Callable[[Progress], None]


@contextmanager
def shown(plan: Plan) -> Iterator[Shown]:
    """Show a plan on stderr: stdout is for the result."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield Shown(_lines(plan, console))
        return
    with Live(console=console, auto_refresh=False) as live:
        yield Shown(lambda progress: live.update(view(plan, progress), refresh=True))


def _lines(plan: Plan, console: Console) -> Callable[[Progress], None]:
    told: dict[int, str] = {}
    repaired: dict[str, None] = {}

    def update(progress: Progress) -> None:
        for one in progress.repairs:
            if one not in repaired:
                repaired[one] = None
                console.print(f"repaired: {one}", soft_wrap=True)
        for move in plan.moves:
            job = progress.jobs.get(move.order)
            phase = job.status.phase or JobPhase.PENDING if job else ""
            if job is not None and told.get(move.order) != phase:
                told[move.order] = phase
                why = f": {job.status.message}" if phase in (JobPhase.FAILED, JobPhase.ABORTED) else ""
                console.print(f"move {move.order} {_title(move, job)} {phase}{why}", soft_wrap=True)

    return update


def view(plan: Plan, progress: Progress) -> RenderableType:
    """The plan as it stands: how far, and what every move does."""
    table = Table(box=None, pad_edge=False)
    for column in ("move", "wave", "pod", "from", "to", "phase", ""):
        table.add_column(column, no_wrap=column != "")
    for move in _worth_seeing(plan, progress):
        job = progress.jobs.get(move.order)
        phase = (job.status.phase or JobPhase.PENDING) if job else "waits"
        style = _STYLES.get(JobPhase(phase), "") if job else "dim"
        target = (target_node(job) if job else None) or move.target
        names = (str(move.order), str(move.wave), f"{move.namespace}/{move.pod}", move.source, target)
        table.add_row(*names, Text(phase, style), Text(_message(job), "dim"))
    done = progress.succeeded + progress.failed
    title = f"plan {progress.plan}: {done} of {len(plan.moves)} moves, wave {progress.wave}"
    if plan.places:
        title += f", {progress.taken} of {len(plan.places)} places taken"
    parts: list[RenderableType] = [
        Text(title, style="bold"),
        ProgressBar(total=len(plan.moves), completed=done, width=60),
    ]
    if progress.stopped:
        parts.append(Text(progress.stopped, style="bold red"))
    parts += [Text(f"repaired: {one}", style="yellow") for one in progress.repairs[:_MOST_ROWS]]
    return Group(*parts, table)


def _worth_seeing(plan: Plan, progress: Progress) -> list[Move]:
    """All moves, or of many those that are not done."""
    if len(plan.moves) <= _MOST_ROWS:
        return list(plan.moves)
    jobs = progress.jobs
    left = [one for one in plan.moves if one.order not in jobs or jobs[one.order].status.phase != JobPhase.SUCCEED]
    return left[:_MOST_ROWS]


def _message(job: PodMigrationJob | None) -> str:
    return (job.status.message or "") if job else ""


def _title(move: Move, job: PodMigrationJob) -> str:
    return f"{move.namespace}/{move.pod} from {move.source} to {target_node(job) or move.target}"
