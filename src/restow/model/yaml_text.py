"""YAML to plain values, the way kubectl reads it, with the line and column of whatever is wrong.

Goes in: text. Comes out: one plain value and its line per document. Unlike PyYAML's own loading: timestamps and base-60
numbers stay text, duplicate keys are refused, keys are strings, aliases cannot blow up, and nesting cannot exhaust the
stack (values are built from parser events, because the C composer recurses without a limit).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

MAX_DEPTH = 100
MAX_ALIASED = 100_000
_TAG = "tag:yaml.org,2002:"
_MERGE = object()
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BOOLEANS = {
    form: value
    for value, words in ((True, ("true", "yes", "on")), (False, ("false", "no", "off")))
    for word in words
    for form in (word, word.capitalize(), word.upper())
}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_NUMBER_START = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?|\.(?=[0-9]))[0-9_]*(?:[eE][-+]?[0-9]+)?", re.ASCII)
_SPECIAL_FLOATS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)


class YamlError(ValueError):
    """The text is not acceptable YAML; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


def load_documents(text: str) -> Iterator[tuple[int, Any]]:
    """Each document of a YAML stream with the line it starts on. Raises YamlError."""
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                first = next(events)
                mark: Any = first.start_mark
                yield mark.line + 1, _Document(events).value(first, 0)
    except yaml.MarkedYAMLError as error:
        message = " ".join(part for part in (error.context, error.problem) if part)
        raise _located(message, error.problem_mark or error.context_mark) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(f"character {error.character!r} is not allowed", line, 1) from None
    except yaml.YAMLError as error:
        raise YamlError(str(error), 1, 1) from None


class _Document:
    """Builds the value of one document from its events, counting what aliases repeat."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self.events = events
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.built = 0
        self.aliased = 0

    def value(self, event: yaml.Event, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _at(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event)
        before = self.built
        self.built += 1
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self.sequence(depth)
        else:
            value = self.mapping(depth)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            self.anchors[event.anchor] = (value, self.built - before)
        return value

    def alias(self, event: yaml.AliasEvent) -> Any:
        if event.anchor not in self.anchors:
            raise _at(event, f"unknown alias {event.anchor!r}")
        # The value is shared, not copied, but encoding writes it out each time: aliases of aliases could make
        # a short text grow without limit.
        value, size = self.anchors[event.anchor]
        self.built += size
        self.aliased += size
        if self.aliased > MAX_ALIASED:
            raise _at(event, "aliases repeat too much")
        return value

    def sequence(self, depth: int) -> list[Any]:
        items = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.value(event, depth + 1))
        return items

    def mapping(self, depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self.key(event)
            value_event = next(self.events)
            value = self.value(value_event, depth + 1)
            if key is _MERGE:
                merged = {**_merge_sources(value, value_event), **merged}
            elif key in own:
                raise _at(event, f"key {key!r} appears twice")
            else:
                own[key] = value
        return {**merged, **own}

    def key(self, event: yaml.Event) -> Any:
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<":
            return _MERGE
        value = self.value(event, 0) if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent) else None
        if value is None or isinstance(value, list | dict):
            raise _at(event, "a key must be a string")
        return str(value).lower() if isinstance(value, bool) else str(value)


def _merge_sources(value: Any, event: yaml.Event) -> dict[str, Any]:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise _at(event, "'<<' needs a map or a list of maps")
    result: dict[str, Any] = {}
    for source in sources:
        result = {**source, **result}
    return result


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if event.tag is None or event.tag == "!":
        return _plain(event, text) if event.implicit[0] else text
    match event.tag.removeprefix(_TAG):
        case "str":
            return text
        case "null" | "bool" | "int" | "float":
            return _plain(event, text)
        case "binary":
            return text
        case _:
            raise _at(event, f"tag {event.tag!r} is not supported")


def _plain(event: yaml.ScalarEvent, text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in _NUMBER_START:
        return text
    if _INTEGER.fullmatch(text):
        return _integer(event, text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    if _SPECIAL_FLOATS.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def _integer(event: yaml.Event, text: str) -> int:
    digits = text.lstrip("+-")
    try:
        if digits[1:2] in ("x", "b", "o"):
            number = int(digits, 0)
        else:
            # YAML 1.1, as in kubectl: a leading zero means octal.
            number = int(digits, 8 if len(digits) > 1 and digits.startswith("0") else 10)
    except ValueError as error:
        raise _at(event, str(error)) from None
    return -number if text.startswith("-") else number


def _at(event: yaml.Event, message: str) -> YamlError:
    return _located(message, event.start_mark)


def _located(message: str, mark: Any) -> YamlError:
    return YamlError(message, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)
