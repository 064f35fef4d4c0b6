"""The undo log: how a snapshot takes back what was only tried.

Every change to a snapshot records its inverse here while a mark is open. `undo_to(mark)` runs the inverses, newest
first; `keep(mark)` lets the changes stand. Marks nest; ending one ends those opened after it. With no mark open nothing
is recorded, so that a stream of events costs no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NewType, TypeVar

Mark = NewType("Mark", int)

K = TypeVar("K")
V = TypeVar("V")
_ABSENT: Final = object()


class UndoLog:
    __slots__ = ("_inverses", "_marks", "_next", "recording")

    def __init__(self) -> None:
        self._inverses: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._marks: dict[Mark, int] = {}
        self._next = 0
        self.recording = False

    def mark(self) -> Mark:
        """Open a mark at the present state."""
        mark = Mark(self._next)
        self._next += 1
        self._marks[mark] = len(self._inverses)
        self.recording = True
        return mark

    def undo_to(self, mark: Mark) -> None:
        """Take back everything since `mark`, and end it."""
        position = self._marks[mark]
        self.recording = False  # the inverses are changes themselves, which nothing needs to take back
        while len(self._inverses) > position:
            inverse, arguments = self._inverses.pop()
            inverse(*arguments)
        self._end(mark)

    def keep(self, mark: Mark) -> None:
        """Keep everything since `mark` (an enclosing mark can still take it back), and end it."""
        self._end(mark)

    def record(self, inverse: Callable[..., object], *arguments: Any) -> None:
        """Remember how to take back the change being made."""
        if self.recording:
            self._inverses.append((inverse, arguments))

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """table[key] = value, undoably."""
        if self.recording:
            self._inverses.append((_restore, (table, key, table.get(key, _ABSENT))))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> None:
        """Remove key from table if it is there, undoably."""
        if key in table:
            old = table.pop(key)
            if self.recording:
                self._inverses.append((_restore, (table, key, old)))

    def _end(self, mark: Mark) -> None:
        for later in [other for other in self._marks if other >= mark]:
            del self._marks[later]
        self.recording = bool(self._marks)
        if not self._marks:
            self._inverses.clear()


def _restore(table: dict[Any, Any], key: object, value: object) -> None:
    if value is _ABSENT:
        table.pop(key, None)
    else:
        table[key] = value
