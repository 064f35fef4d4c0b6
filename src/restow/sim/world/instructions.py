"""Instructions: annotations that set how one pod or node of the simulation behaves.

`instruction_value` reads one. An unreadable value counts as absent, and the rules here record one Event about the
object with the annotation, the value and the expected form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec

from restow.model.kinds import NODE, POD
from restow.model.object_key import Key
from restow.model.objects import Object
from restow.model.times import parse_time
from restow.sim.world.rule import Rule, object_reference
from restow.sim.world.settings import EXIT_CODE, NEVER_READY, READY, RUN, SILENT_SINCE, START, STOP
from restow.sim.world.step import NOTHING, Record, Step
from restow.sim.world.view import View


class _Form(msgspec.Struct, frozen=True):
    expected: str
    read: Callable[[str], float]  # raises ValueError


_LONGEST = 1e9  # seconds, thirty years: clocks and calendars still work then


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= _LONGEST:  # nor is NaN
        raise ValueError(text)
    return number


def _exit_code(text: str) -> float:
    return float(range(256).index(int(text)))


def _switch(text: str) -> float:
    return float(("false", "true").index(text))


_SECONDS = _Form('a number of seconds, such as "2.5"', _seconds)
_FORMS = {
    **dict.fromkeys((START, READY, RUN, STOP), _SECONDS),
    EXIT_CODE: _Form("a whole number from 0 to 255", _exit_code),
    NEVER_READY: _Form('"true" or "false"', _switch),
    SILENT_SINCE: _Form('a time, such as "2026-01-31T12:00:00Z"', parse_time),
}


def instruction_value(item: Object, key: str) -> float | None:
    """The value of an annotation; None if it is absent or unreadable."""
    text = (item.metadata.annotations or {}).get(key)
    try:
        return None if text is None else _FORMS[key].read(text)
    except ValueError:
        return None


def _unreadable(item: Object, keys: tuple[str, ...]) -> dict[str, str]:
    """Annotation -> what is wrong with it."""
    present: Mapping[str, str] = item.metadata.annotations or {}
    return {
        key: f'annotation {key}: "{present[key][:40]}" is ignored: expected {_FORMS[key].expected}'
        for key in keys
        if key in present and instruction_value(item, key) is None
    }


class _UnreadableAnnotations(Rule):
    """Remembers the warnings of each object: it records an Event per new mistake, not per change of the object."""

    instructions: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        self._said: dict[Key, set[tuple[str, str]]] = {}

    def decide(self, key: Key, view: View) -> Step:
        item = view.get(self.kind, key)
        wrong = _unreadable(item, self.instructions) if item else {}
        if item is None or not wrong:
            self._said.pop(key, None)
            return NOTHING
        now = {(item.metadata.uid, message) for message in wrong.values()}
        before = self._said.get(key, set())
        self._said[key] = now
        fresh = sorted(message for _, message in now - before)
        return Step(
            tuple(Record(object_reference(self.kind, item), "BadAnnotation", each, "Warning") for each in fresh)
        )


class PodAnnotationWarnings(_UnreadableAnnotations):
    kind = POD
    instructions = (START, READY, RUN, STOP, EXIT_CODE, NEVER_READY)


class NodeAnnotationWarnings(_UnreadableAnnotations):
    kind = NODE
    instructions = (SILENT_SINCE,)
