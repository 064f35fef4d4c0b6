"""How a plan is carried out, for people to watch: a table that changes on a terminal, else a line for each change."""

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

from restow.control.descheduler import Progress
from restow.migration.reservation import target_node
from restow.model.objects import JobPhase, PodMigrationJob
from restow.model.words import number_of
from restow.planning.plan import Move, Plan, printed

_STYLES = {JobPhase.SUCCEED: "green", JobPhase.FAILED: "red", JobPhase.ABORTED: "red", JobPhase.RUNNING: "yellow"}
_REASONED = (JobPhase.PENDING, JobPhase.FAILED, JobPhase.ABORTED)
"""Phases of which people want to know why."""
_MOST_ROWS = 25
_UNTOUCHED_SECONDS = 10.0
_WHO_WOULD = "does the component migrations run? See restow run and restow install"


class Shown(msgspec.Struct, frozen=True):
    """What is shown, brought up to date."""

    update: Callable[[Progress], None]


class Carried(msgspec.Struct, frozen=True):
    """How a plan was carried out, for programs."""

    plan: str
    moves: list[dict[str, Any]]
    """As a printed plan has them, and what has become of each; without a job it was left out."""
    repairs: list[str]
    places: int
    taken: int


def carried(plan: Plan, progress: Progress) -> Carried:
    moves = [{**move, **_became(progress.jobs.get(move["order"]))} for move in printed(plan)["moves"]]
    return Carried(progress.plan, moves, list(progress.repairs), len(plan.places), progress.taken)


def _became(job: PodMigrationJob | None) -> dict[str, Any]:
    if job is None:
        return {"job": None, "phase": None, "message": ""}
    target = target_node(job)
    found = {"job": job.metadata.name, "phase": job.status.phase, "message": _message(job)}
    return {"to": target, **found} if target else found


@contextmanager
def shown(plan: Plan, clock: Callable[[], float] = time.monotonic) -> Iterator[Shown]:
    """Show a plan on stderr: stdout is for the result."""
    console, untouched = Console(stderr=True, highlight=False), _Untouched(clock)
    if not console.is_terminal:
        yield Shown(_Lines(plan, console, untouched).update)
        return
    with Live(Text("reading the cluster", style="dim"), console=console, auto_refresh=False) as live:
        yield Shown(lambda progress: live.update(view(plan, progress, untouched.told(progress)), refresh=True))


class _Untouched:
    """Jobs that nobody takes up: what is missing then is whoever carries them out."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[int, float] = {}

    def told(self, progress: Progress) -> str | None:
        now, orders = self._clock(), [order for order, job in progress.jobs.items() if not job.status.phase]
        self._since = {order: self._since.get(order, now) for order in orders}
        count = sum(now - since >= _UNTOUCHED_SECONDS for since in self._since.values())
        return f"nobody takes up {number_of(count, 'job')}; {_WHO_WOULD}" if count else None


class _Lines:
    """A line for each change, by the name of the program, like all that is told beside a result."""

    def __init__(self, plan: Plan, console: Console, untouched: _Untouched) -> None:
        self._plan = plan
        self._console = console
        self._untouched = untouched
        self._said: dict[object, str | None] = {}

    def update(self, progress: Progress) -> None:
        for one in progress.repairs:
            self._say(("repaired", one), f"repaired: {one}")
        for move in self._plan.moves:
            if job := progress.jobs.get(move.order):
                phase = job.status.phase or JobPhase.PENDING
                why = f": {job.status.message}" if phase in _REASONED and job.status.message else ""
                self._say(move.order, f"move {move.order} {_title(move, job)} {phase}{why}")
        self._say("stopped", progress.stopped, otherwise="evictions go on")
        self._say("trouble", _waits(progress.trouble), otherwise="the cluster answers again")
        self._say("untouched", self._untouched.told(progress), otherwise="all jobs are taken up")
        if progress.taken:
            self._say("taken", f"{progress.taken} of {len(self._plan.places)} places taken")

    def _say(self, what: object, line: str | None, otherwise: str = "") -> None:
        """Once for as long as it is true; `otherwise` is what is said when it is no more."""
        before, self._said[what] = self._said.get(what), line
        if line != before:
            self._console.print(f"restow: {line or otherwise}", soft_wrap=True)


def view(plan: Plan, progress: Progress, trouble: str | None = None) -> RenderableType:
    """The plan as it stands: how far, what every move does, and what else keeps them."""
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
    in_the_way = (progress.stopped, _waits(progress.trouble), trouble)
    parts += [Text(one, style="bold red") for one in in_the_way if one]
    parts += [Text(f"repaired: {one}", style="yellow") for one in progress.repairs[:_MOST_ROWS]]
    return Group(*parts, table)


def _waits(trouble: str | None) -> str | None:
    """What is the matter with the cluster, for people who could give up."""
    return f"waits for the cluster: {trouble}" if trouble else None


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
