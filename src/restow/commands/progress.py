"""The progress line of commands that take a while, and Ctrl-C during a search.

On a terminal, after a second: one line on stderr that changes, with the current activity, a bar for the time limit, the
best result so far, the bound and the gap. Elsewhere nothing.

On a terminal the first Ctrl-C during a search ends the search, and the best plan so far is the result. A second one
ends the command.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from restow.model.kinds import Kind
from restow.planning.plan_request import PlanProgress
from restow.snapshots.capture import ListProgress

SHOW_AFTER = 1.0
"""Seconds before the line appears: short commands print nothing."""


class ProgressLine:
    """The current activity. Updated by the main thread, drawn by another."""

    def __init__(self, *, on_terminal: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_terminal = on_terminal
        self._clock = clock
        self._activity = ""
        self._began = clock()
        self._limit: float | None = None
        self._plan_progress: PlanProgress | None = None
        self.is_cut_short = False
        """Whether the user has ended the search with Ctrl-C."""

    def begin(self, activity: str, limit: float | None = None) -> None:
        """Start another activity, which takes `limit` seconds at most."""
        self._activity, self._limit, self._began = activity, limit, self._clock()
        self._plan_progress = None

    def update(self, plan_progress: PlanProgress) -> None:
        self._plan_progress = plan_progress

    @property
    def on_objects_read(self) -> ListProgress | None:
        """Callback for the number of objects that were read; None if the line is not shown."""
        return self._read if self._on_terminal else None

    def _read(self, kind: Kind[Any], number: int) -> None:
        self._activity = f"reading {kind.plural}, {number:,} so far"

    @contextmanager
    def search(self, limit: float) -> Iterator[None]:
        """Run a search of `limit` seconds, which Ctrl-C ends early on a terminal."""
        self.begin("planning", limit)
        if not self._on_terminal:
            yield
            return
        before = signal.signal(signal.SIGINT, self._cut_short)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _cut_short(self, number: int, frame: FrameType | None) -> None:
        if self.is_cut_short:
            raise KeyboardInterrupt
        self.is_cut_short = True

    def time(self) -> float:
        """The clock of the search, in seconds since the epoch. After Ctrl-C it jumps ahead by the time limit, which
        ends the search the same way as its deadline does."""
        ahead = self._limit or 0.0
        return time.time() + (ahead if self.is_cut_short else 0.0)

    @property
    def elapsed(self) -> float:
        """Seconds since the current activity began."""
        return self._clock() - self._began

    def view(self) -> RenderableType:
        elapsed = self.elapsed
        row: list[RenderableType] = [Text(f"restow: {self._activity}")]
        if self._limit is not None:
            row.append(ProgressBar(total=self._limit, completed=min(elapsed, self._limit), width=24))
        row.append(Text(f"{elapsed:.0f} s"))
        if self.is_cut_short:
            row.append(Text("ending the search, Ctrl-C again to abort"))
        elif self._plan_progress is not None:
            row.append(Text(_describe(self._plan_progress)))
        table = Table.grid(padding=(0, 1))
        table.add_row(*row)
        return table


def _describe(plan_progress: PlanProgress) -> str:
    parts = [plan_progress.phase]
    if plan_progress.best is not None:
        parts.append(f"best {plan_progress.best:g}")
    if plan_progress.bound is not None:
        parts.append(f"bound {plan_progress.bound:g}")
    if plan_progress.best is not None and plan_progress.bound:
        parts.append(f"gap {100 * (plan_progress.bound - plan_progress.best) / plan_progress.bound:.1f} %")
    return ", ".join(parts)


@contextmanager
def progress_line(console: Console | None = None) -> Iterator[ProgressLine]:
    """Show a progress line until the context ends."""
    console = console or Console(stderr=True, highlight=False)
    line = ProgressLine(on_terminal=console.is_terminal)
    if not console.is_terminal:
        yield line
        return
    live = Live(console=console, transient=True, refresh_per_second=4, get_renderable=line.view)
    timer = threading.Timer(SHOW_AFTER, live.start)
    timer.daemon = True
    timer.start()
    try:
        yield line
    except KeyboardInterrupt:
        if live.is_started:  # the live line is cleared together with the echoed ^C: no line has to be ended
            raise click.Abort from None
        raise
    finally:
        timer.cancel()
        timer.join()
        live.stop()
