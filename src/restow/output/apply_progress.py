"""The progress of `restow apply`: a table that changes on a terminal, else a line for each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from restow.control.descheduler import ApplyProgress
from restow.migration.reservation import target_node
from restow.model.counted_nouns import counted_noun
from restow.model.objects import JobPhase, PodMigrationJob
from restow.planning.plan import Move, Plan, plan_document

_STYLES = {JobPhase.SUCCEED: "green", JobPhase.FAILED: "red", JobPhase.ABORTED: "red", JobPhase.RUNNING: "yellow"}
_EXPLAINED = (JobPhase.PENDING, JobPhase.FAILED, JobPhase.ABORTED)
"""Phases whose message is printed."""
_MOST_ROWS = 25
_PENDING_HINT_SECONDS = 10.0
_PENDING_HINT = "is the migrations component running? See restow run and restow install"


class ProgressDisplay(msgspec.Struct, frozen=True):
    """Where to report progress to."""

    update: Callable[[ApplyProgress], None]


class ApplyResult(msgspec.Struct, frozen=True):
    """The document of `restow apply -o json`."""

    plan: str
    moves: list[dict[str, Any]]
    """The moves as in the printed plan, each with its job and end state. A move without a job was skipped."""
    repairs: list[str]
    places: int
    taken: int


def apply_result(plan: Plan, progress: ApplyProgress) -> ApplyResult:
    moves = [{**move, **_job_fields(progress.jobs.get(move["order"]))} for move in plan_document(plan)["moves"]]
    return ApplyResult(progress.plan, moves, list(progress.repairs), len(plan.places), progress.filled_places)


def _job_fields(job: PodMigrationJob | None) -> dict[str, Any]:
    if job is None:
        return {"job": None, "phase": None, "message": ""}
    target = target_node(job)
    fields = {"job": job.metadata.name, "phase": job.status.phase, "message": _message(job)}
    return {"to": target, **fields} if target else fields


@contextmanager
def progress_display(plan: Plan, clock: Callable[[], float] = time.monotonic) -> Iterator[ProgressDisplay]:
    """Show the progress of a plan on stderr; stdout is for the result."""
    console, pending_hint = Console(stderr=True, highlight=False), _PendingHint(clock)
    if not console.is_terminal:
        yield ProgressDisplay(_LineDisplay(plan, console, pending_hint).update)
        return
    with Live(Text("reading the cluster", style="dim"), console=console, auto_refresh=False) as live:

        def redraw(progress: ApplyProgress) -> None:
            live.update(progress_table(plan, progress, pending_hint.update(progress)), refresh=True)

        yield ProgressDisplay(redraw)


class _PendingHint:
    """A hint about jobs that no controller picks up: then the migrations component probably does not run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[int, float] = {}

    def update(self, progress: ApplyProgress) -> str | None:
        now, orders = self._clock(), [order for order, job in progress.jobs.items() if not job.status.phase]
        self._since = {order: self._since.get(order, now) for order in orders}
        count = sum(now - since >= _PENDING_HINT_SECONDS for since in self._since.values())
        return f"no controller has picked up {counted_noun(count, 'job')}; {_PENDING_HINT}" if count else None


class _LineDisplay:
    """Prints a line for each change."""

    def __init__(self, plan: Plan, console: Console, pending_hint: _PendingHint) -> None:
        self._plan = plan
        self._console = console
        self._pending_hint = pending_hint
        self._printed: dict[object, str | None] = {}

    def update(self, progress: ApplyProgress) -> None:
        for repair in progress.repairs:
            self._print(("repaired", repair), f"repaired: {repair}")
        for move in self._plan.moves:
            if job := progress.jobs.get(move.order):
                phase = job.status.phase or JobPhase.PENDING
                reason = f": {job.status.message}" if phase in _EXPLAINED and job.status.message else ""
                self._print(move.order, f"move {move.order} {_title(move, job)} {phase}{reason}")
        self._print("stopped", progress.stop_reason, when_over="not paused")
        self._print("interruption", _waiting(progress.interruption), when_over="the API server answers again")
        self._print("pending", self._pending_hint.update(progress), when_over="all jobs have been picked up")
        if progress.filled_places:
            self._print("places", f"{progress.filled_places} of {len(self._plan.places)} places taken")

    def _print(self, subject: object, line: str | None, when_over: str = "") -> None:
        """Print the line about a subject if it differs from the last one, and `when_over` when there is no line now."""
        before, self._printed[subject] = self._printed.get(subject), line
        if line != before:
            self._console.print(f"restow: {line or when_over}", soft_wrap=True)


def progress_table(plan: Plan, progress: ApplyProgress, hint: str | None = None) -> RenderableType:
    """How many moves are done, the state of each, and what they wait for."""
    table = Table(box=None, pad_edge=False)
    for column in ("move", "wave", "pod", "from", "to", "phase", ""):
        table.add_column(column, no_wrap=column != "")
    for move in _visible_moves(plan, progress):
        job = progress.jobs.get(move.order)
        phase = (job.status.phase or JobPhase.PENDING) if job else "waiting"
        style = _STYLES.get(JobPhase(phase), "") if job else "dim"
        target = (target_node(job) if job else None) or move.target
        names = (str(move.order), str(move.wave), f"{move.namespace}/{move.pod}", move.source, target)
        table.add_row(*names, Text(phase, style), Text(_message(job), "dim"))
    done = progress.succeeded + progress.failed
    title = f"plan {progress.plan}: {done} of {len(plan.moves)} moves, wave {progress.wave}"
    if plan.places:
        title += f", {progress.filled_places} of {len(plan.places)} places taken"
    parts: list[RenderableType] = [
        Text(title, style="bold"),
        ProgressBar(total=len(plan.moves), completed=done, width=60),
    ]
    warnings = (progress.stop_reason, _waiting(progress.interruption), hint)
    parts += [Text(warning, style="bold red") for warning in warnings if warning]
    parts += [Text(f"repaired: {repair}", style="yellow") for repair in progress.repairs[:_MOST_ROWS]]
    return Group(*parts, table)


def _waiting(interruption: str | None) -> str | None:
    return f"waiting for the API server: {interruption}" if interruption else None


def _visible_moves(plan: Plan, progress: ApplyProgress) -> list[Move]:
    """All moves; of a long plan the first ones that have not succeeded."""
    if len(plan.moves) <= _MOST_ROWS:
        return list(plan.moves)
    jobs = progress.jobs
    open_moves = [
        move for move in plan.moves if move.order not in jobs or jobs[move.order].status.phase != JobPhase.SUCCEED
    ]
    return open_moves[:_MOST_ROWS]


def _message(job: PodMigrationJob | None) -> str:
    return (job.status.message or "") if job else ""


def _title(move: Move, job: PodMigrationJob) -> str:
    return f"{move.namespace}/{move.pod} from {move.source} to {target_node(job) or move.target}"
