"""What people see while they wait for an answer about a large cluster, and how they say that they have waited enough.

Goes in: what is being done, and how far a search is. Comes out, on a terminal and after a second: one line on stderr
that changes, with a bar for the time limit, the best answer so far, the bound and the gap. Elsewhere nothing.

On a terminal Ctrl-C during a search means that the time is up: the best plan so far is the answer. A second one ends
everything.
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
from restow.planning.request import Stand
from restow.snapshots.capture import Heed

SILENCE = 1.0
"""Seconds after which people want to know."""


class Patience:
    """What is being waited for. Told from one thread, drawn from another."""

    def __init__(self, *, on_terminal: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_terminal = on_terminal
        self._clock = clock
        self._what = ""
        self._began = clock()
        self._limit: float | None = None
        self._stand: Stand | None = None
        self.is_over = False
        """Whether somebody has waited enough."""

    def doing(self, what: str, limit: float | None = None) -> None:
        """Something else begins, which takes `limit` seconds at most."""
        self._what, self._limit, self._began = what, limit, self._clock()
        self._stand = None

    def tell(self, stand: Stand) -> None:
        self._stand = stand

    @property
    def heed(self) -> Heed | None:
        """Hears how many objects were read; None where nobody would see it."""
        return self._read if self._on_terminal else None

    def _read(self, kind: Kind[Any], number: int) -> None:
        self._what = f"reading {kind.plural}, {number:,} so far"

    @contextmanager
    def search(self, limit: float) -> Iterator[None]:
        """A search of so many seconds, which people may cut short."""
        self.doing("planning", limit)
        if not self._on_terminal:
            yield
            return
        before = signal.signal(signal.SIGINT, self._enough)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _enough(self, number: int, frame: FrameType | None) -> None:
        if self.is_over:
            raise KeyboardInterrupt
        self.is_over = True

    def time(self) -> float:
        """Seconds since the epoch; once somebody has waited enough, so much later that every search is over."""
        late = self._limit or 0.0
        return time.time() + (late if self.is_over else 0.0)

    @property
    def passed(self) -> float:
        """Seconds since what is being done began."""
        return self._clock() - self._began

    def view(self) -> RenderableType:
        passed = self.passed
        row: list[RenderableType] = [Text(f"restow: {self._what}")]
        if self._limit is not None:
            row.append(ProgressBar(total=self._limit, completed=min(passed, self._limit), width=24))
        row.append(Text(f"{passed:.0f} s"))
        if self.is_over:
            row.append(Text("time is up, Ctrl-C again to give up"))
        elif self._stand is not None:
            row.append(Text(_told(self._stand)))
        table = Table.grid(padding=(0, 1))
        table.add_row(*row)
        return table


def _told(stand: Stand) -> str:
    parts = [stand.phase]
    if stand.best is not None:
        parts.append(f"best {stand.best:g}")
    if stand.bound is not None:
        parts.append(f"bound {stand.bound:g}")
    if stand.best is not None and stand.bound:
        parts.append(f"gap {100 * (stand.bound - stand.best) / stand.bound:.1f} %")
    return ", ".join(parts)


@contextmanager
def shown(console: Console | None = None) -> Iterator[Patience]:
    """Show what is waited for, as long as this lasts."""
    console = console or Console(stderr=True, highlight=False)
    patience = Patience(on_terminal=console.is_terminal)
    if not console.is_terminal:
        yield patience
        return
    live = Live(console=console, transient=True, refresh_per_second=4, get_renderable=patience.view)
    later = threading.Timer(SILENCE, live.start)
    later.daemon = True
    later.start()
    try:
        yield patience
    except KeyboardInterrupt:
        if live.is_started:  # its line is cleared, and the ^C with it: none has to be ended
            raise click.Abort from None
        raise
    finally:
        later.cancel()
        later.join()
        live.stop()
