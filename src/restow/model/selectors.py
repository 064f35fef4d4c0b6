"""Label and field selectors: parsing, checking and matching, with the grammar of kube-apiserver.

Goes in: the text of a query parameter, or a selector as written in an object. Comes out: a `LabelSelector` or a
`FieldSelector` with `matches`. A selector that is absent (None) matches nothing, an empty one matches everything.

    selector      requirement { "," requirement }
    requirement   key | "!" key | key ("=" | "==" | "!=") value | key (">" | "<") integer
                | key ("in" | "notin") "(" value { "," value } ")"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from restow.model.names import label_value_problems, qualified_name_problems
from restow.model.objects import SelectorRequirement, SelectorSpec

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
OPERATORS: tuple[Operator, ...] = ("In", "NotIn", "Exists", "DoesNotExist")
_INT64 = range(-(2**63), 2**63)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|$)")
_ESCAPED = re.compile(r"(?:[^\\,=]|\\[\\,=])*", re.DOTALL)
_EXACT: dict[str, Operator] = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_SETS: dict[str, Operator] = {"in": "In", "notin": "NotIn"}


class SelectorError(ValueError):
    """The selector is malformed; the message quotes the part and says what is wrong."""


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and _compares(self.operator, value, self.values)

    def __str__(self) -> str:
        match self.operator:
            case "In" | "NotIn" if len(self.values) == 1:
                return f"{self.key}{'=' if self.operator == 'In' else '!='}{self.values[0]}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({','.join(sorted(self.values))})"
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "Gt" | "Lt":
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{self.values[0]}"


class LabelSelector(msgspec.Struct, frozen=True, gc=False):
    """Requirements that must all hold; with `nothing`, no object matches whatever its labels."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if self.nothing:
            return False
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)

    @property
    def everything(self) -> bool:
        return not self.requirements and not self.nothing

    def __str__(self) -> str:
        return "<nothing>" if self.nothing else ",".join(map(str, self.requirements))


NOTHING = LabelSelector(nothing=True)
EVERYTHING = LabelSelector()


class FieldSelector(msgspec.Struct, frozen=True, gc=False):
    """Conditions on fields: (path, negated, value), all of which must hold."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, lookup: Callable[[str], str]) -> bool:
        return all((lookup(path) == value) is not negated for path, negated, value in self.terms)

    def __str__(self) -> str:
        return ",".join(f"{path}{'!=' if negated else '='}{_escape(value)}" for path, negated, value in self.terms)


def label_selector(spec: SelectorSpec | Mapping[str, Any] | None) -> LabelSelector:
    """Compile a selector as written in an object. None matches nothing, {} matches everything. Raises SelectorError."""
    if spec is None:
        return NOTHING
    if not isinstance(spec, SelectorSpec):
        spec = _convert(spec)
    requirements = [parse_requirement(key, "In", [value]) for key, value in (spec.match_labels or {}).items()]
    requirements += [read_requirement(expression) for expression in spec.match_expressions or ()]
    return LabelSelector(tuple(sorted(requirements, key=lambda each: each.key)))


@lru_cache(maxsize=4096)
def parse_label_selector(text: str) -> LabelSelector:
    """Read the text form, such as "app=web,tier in (a,b),!legacy". Raises SelectorError."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while not tokens.at_end():
        requirements.append(_parse_requirement(tokens))
        if tokens.at_end():
            break
        tokens.expect(",")
        if tokens.at_end():
            raise tokens.error("a key or '!' after ','")
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


@lru_cache(maxsize=4096)
def parse_field_selector(text: str) -> FieldSelector:
    """Read the text form, such as "spec.nodeName=n1,status.phase!=Running"; backslash escapes , = and itself."""
    terms = [_parse_field_term(part) for part in _split_unescaped(text) if part]
    return FieldSelector(tuple(terms))


def parse_requirement(key: str, operator: Operator, values: list[str]) -> Requirement:
    """A checked requirement. Raises SelectorError naming every problem."""
    problems = [f"key {key!r}: {problem}" for problem in qualified_name_problems(key)]
    if operator in ("In", "NotIn") and not values:
        problems.append(f"values of {key!r}: {operator} needs at least one")
    if operator in ("Exists", "DoesNotExist") and values:
        problems.append(f"values of {key!r}: {operator} takes none")
    if operator in ("Gt", "Lt") and (len(values) != 1 or _int64(values[0]) is None):
        problems.append(f"values of {key!r}: {operator} needs exactly one integer")
    problems += [
        f"value {value!r} of {key!r}: {problem}" for value in values for problem in label_value_problems(value)
    ]
    if problems:
        raise SelectorError("; ".join(problems))
    return Requirement(key, operator, tuple(dict.fromkeys(values)))


def compare_integers(operator: Literal["Gt", "Lt"], left: str, right: str) -> bool:
    """left > right or left < right as int64; False when either is not an integer."""
    first, second = _int64(left), _int64(right)
    if first is None or second is None:
        return False
    return first > second if operator == "Gt" else first < second


def _compares(operator: Literal["Gt", "Lt"], value: str, values: tuple[str, ...]) -> bool:
    return len(values) == 1 and compare_integers(operator, value, values[0])


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 256:
        return None
    number = int(text)
    return number if number in _INT64 else None


def _convert(spec: Mapping[str, Any]) -> SelectorSpec:
    try:
        return msgspec.convert(spec, SelectorSpec)
    except msgspec.ValidationError as error:
        raise SelectorError(f"selector: {error}") from None


def read_requirement(expression: SelectorRequirement, operators: Sequence[Operator] = OPERATORS) -> Requirement:
    """A requirement as it is written, with one of these operators. Raises SelectorError."""
    for operator in operators:
        if expression.operator == operator:
            return parse_requirement(expression.key, operator, expression.values or [])
    raise SelectorError(
        f"operator {expression.operator!r} of {expression.key!r}: expected one of {', '.join(operators)}"
    )


class _Tokens:
    """The text cut into keys, values and symbols, with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [token for token in _TOKEN.findall(text) if token]
        self.position = 0

    def at_end(self) -> bool:
        return self.position == len(self.tokens)

    def peek(self) -> str:
        return "" if self.at_end() else self.tokens[self.position]

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def expect(self, symbol: str) -> None:
        if self.peek() != symbol:
            raise self.error(repr(symbol))
        self.position += 1

    def error(self, expected: str) -> SelectorError:
        token = repr(self.peek()) if not self.at_end() else "the end"
        return SelectorError(f"label selector {_shorten(self.text)}: found {token}, expected {expected}")


_SYMBOLS = frozenset({"", "=", "==", "!=", "!", "(", ")", ",", "<", ">"})


def _parse_requirement(tokens: _Tokens) -> Requirement:
    negated = tokens.peek() == "!"
    if negated:
        tokens.take()
    if tokens.peek() in _SYMBOLS:
        raise tokens.error("a key" if negated else "a key or '!'")
    key = tokens.take()
    if negated:
        if tokens.peek() not in ("", ","):
            raise tokens.error("',' or the end")
        return parse_requirement(key, "DoesNotExist", [])
    if tokens.peek() in ("", ","):
        return parse_requirement(key, "Exists", [])
    symbol = tokens.peek()
    if symbol in _EXACT:
        tokens.take()
        return parse_requirement(key, _EXACT[symbol], [_parse_exact_value(tokens)])
    if symbol in _SETS:
        tokens.take()
        return parse_requirement(key, _SETS[symbol], _parse_values(tokens))
    raise tokens.error("one of = == != > < in notin")


def _parse_exact_value(tokens: _Tokens) -> str:
    if tokens.peek() in ("", ","):
        return ""
    if tokens.peek() in _SYMBOLS:
        raise tokens.error("a value")
    return tokens.take()


def _parse_values(tokens: _Tokens) -> list[str]:
    """The values between parentheses; an empty place between commas is the empty value."""
    tokens.expect("(")
    values: list[str] = []
    while True:
        values.append("" if tokens.peek() in (",", ")") else _parse_exact_value(tokens))
        if tokens.peek() == ")":
            tokens.take()
            return values
        if tokens.peek() != ",":
            raise tokens.error("',' or ')'")
        tokens.take()


def _parse_field_term(part: str) -> tuple[str, bool, str]:
    match = re.match(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL)
    if match is None:
        raise SelectorError(f"field selector {_shorten(part)}: expected path=value, path==value or path!=value")
    path, operator, value = match.groups()
    if not path:
        raise SelectorError(f"field selector {_shorten(part)}: the path before {operator!r} is empty")
    return path, operator == "!=", _unescape(value)


def _split_unescaped(text: str) -> list[str]:
    """Cut at commas that no backslash precedes."""
    parts, start, position = [], 0, 0
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] == ",":
            parts.append(text[start:position])
            start = position + 1
        position += 1
    parts.append(text[start:])
    return parts


def _unescape(value: str) -> str:
    if _ESCAPED.fullmatch(value) is None:
        raise SelectorError(
            f"field selector value {_shorten(value)}: write '=' as '\\=', and a backslash only before '\\', ',' or '='"
        )
    return re.sub(r"\\([\\,=])", r"\1", value)


def _escape(value: str) -> str:
    return re.sub(r"([\\,=])", r"\\\1", value)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
