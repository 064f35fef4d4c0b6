"""The part of JSONPath that printer columns of a CustomResourceDefinition may use.

In: a path such as `.status.conditions[?(@.type=="Ready")].status`. Out: a function that finds its values in a document.
Members with a dot or bracket, quoted members, indexes, slices, `[*]` and one equality filter per step are understood;
anything else is refused with `PathError` and its place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterator[Any]]
Path = Callable[[Any], list[Any]]

_TOKEN = re.compile(
    r"""
    \.(?P<member>(?:[^.\[\]\\'"\s]|\\.)+)
  | \[(?P<quote>['"])(?P<quoted>(?:\\.|(?!(?P=quote)).)*)(?P=quote)\]
  | \[(?P<index>-?\d+)\]
  | \[(?P<start>-?\d+)?:(?P<stop>-?\d+)?\]
  | (?P<all>\.?\[\*\]|\.\*)
  | \[\?\(@(?P<filter>(?:\.(?:[^.\[\]\\'"\s=!]|\\.)+)+)\s*(?P<operator>==|!=)\s*(?P<literal>"[^"]*"|'[^']*'|[-\w.]+)\)\]
    """,
    re.VERBOSE,
)


class PathError(ValueError):
    """The path uses what printer columns may not, or is broken."""


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Path:
    steps: list[Step] = []
    position = 0
    while position < len(path):
        match = _TOKEN.match(path, position)
        if match is None:
            raise PathError(f"{path!r}: cannot read {path[position:]!r} at position {position}")
        steps.append(_step(match))
        position = match.end()
    return lambda document: _follow(steps, document)


def _follow(steps: list[Step], document: Any) -> list[Any]:
    values = [document]
    for step in steps:
        values = [result for value in values for result in step(value)]
    return values


def _step(match: re.Match[str]) -> Step:
    part = match.groupdict()
    if part["member"] is not None:
        return _member(_unescape(part["member"]))
    if part["quoted"] is not None:
        return _member(_unescape(part["quoted"]))
    if part["index"] is not None:
        return _index(int(part["index"]))
    if part["all"] is not None:
        return _all
    if part["filter"] is not None:
        return _filter(compile_path(part["filter"]), _literal(part["literal"]), part["operator"] == "==")
    start, stop = (int(bound) if bound else None for bound in (part["start"], part["stop"]))
    return lambda value: iter(value[start:stop]) if isinstance(value, list) else iter(())


def _unescape(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _index(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _filter(path: Path, literal: Any, equal: bool) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if any((candidate == literal) is equal for candidate in path(item)))

    return step
