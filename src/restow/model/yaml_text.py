"""YAML to plain values, the way kubectl reads it, with the line and column of whatever is wrong.

Goes in: text. Comes out: one plain value and its line per document. Differs from PyYAML's own loading: timestamps and
base-60 numbers stay text, duplicate keys are refused, keys are strings, and aliases cannot blow up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

MAX_DEPTH = 100
MAX_ALIASED = 100_000
_TAG = "tag:yaml.org,2002:"
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(ValueError):
    """The text is not acceptable YAML; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.line = line
        self.column = column


class _Loader(_BASE):  # type: ignore[misc]  # the C loader has no stubs
    """Composes nodes; the resolvers decide which plain scalars are null, booleans and numbers."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("bool", r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", tuple("yYnNtTfFoO")),
    ("int", r"[-+]?0b[0-1_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+", tuple("-+0123456789")),
    (
        "float",
        r"[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        tuple("-+0123456789."),
    ),
    ("merge", r"<<", ("<",)),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern})\\Z"), list(_first))


def load_documents(text: str) -> Iterator[tuple[int, Any]]:
    """Each document of a YAML stream with the line it starts on. Raises YamlError."""
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            if node is not None:
                yield node.start_mark.line + 1, _Construction().value(node, 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(message, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(f"character {error.character!r} is not allowed", line, 1) from None
    except yaml.YAMLError as error:
        raise YamlError(str(error), 1, 1) from None


class _Construction:
    """Plain values from the nodes of one document, counting what aliases repeat."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.repeated = 0

    def value(self, node: yaml.Node, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _at(node, f"nested deeper than {MAX_DEPTH} levels")
        if id(node) in self.seen:
            self.repeated += 1
            if self.repeated > MAX_ALIASED:
                raise _at(node, "aliases repeat too much")
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        return _scalar(node)

    def mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                merged = {**self.merged(value_node, depth), **merged}
                continue
            key = _key(key_node)
            if key in own:
                raise _at(key_node, f"key {key!r} appears twice")
            own[key] = self.value(value_node, depth + 1)
        return {**merged, **own}

    def merged(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, Any] = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise _at(source, "'<<' needs a map or a list of maps")
            result = {**self.value(source, depth + 1), **result}
        return result


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _at(node, "a key must be a string")
    value = _scalar(node)
    if value is None:
        raise _at(node, "a key must not be null")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _scalar(node: yaml.Node) -> Any:
    text = str(node.value)
    match node.tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() in ("yes", "true", "on")
        case "int":
            return _integer(node, text.replace("_", ""))
        case "float":
            return float(text.replace("_", "").replace(".inf", "inf").replace(".Inf", "inf").replace(".nan", "nan"))
        case "str" | "merge":
            return text
        case other:
            raise _at(node, f"tag {other!r} is not supported")


def _integer(node: yaml.Node, text: str) -> int:
    digits = text.lstrip("+-")
    try:
        if digits.startswith(("0x", "0b", "0o")):
            number = int(digits, 0)
        else:
            number = int(digits, 8 if len(digits) > 1 and digits.startswith("0") else 10)
    except ValueError as error:
        raise _at(node, str(error)) from None
    return -number if text.startswith("-") else number


def _at(node: yaml.Node, message: str) -> YamlError:
    return YamlError(message, node.start_mark.line + 1, node.start_mark.column + 1)
