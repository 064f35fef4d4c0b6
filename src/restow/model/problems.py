"""All problems of a document, found by walking it along the type that should read it.

In: a Struct type and a decoded JSON or YAML value. Out: `Problem`s, each with the path of its field. Decoders stop at
the first mistake; this runs after one has stopped, and before a document written by a user is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_origin

import msgspec
from msgspec import inspect

from restow.model.quantity import QuantityError, not_negative
from restow.model.times import TimeError, parse_duration, parse_time


class Problem(msgspec.Struct, frozen=True, order=True):
    """One mistake, and the path of its field ("" for the whole document)."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


CHECKS: Final[Mapping[str | None, Callable[[Any], object]]] = {
    "quantity": not_negative,
    "date-time": parse_time,
    "duration": parse_duration,
}
_FORMATS: Final[Mapping[str | None, str]] = {
    "date-time": "a time such as 2026-01-02T15:04:05Z",
    "duration": "a duration such as 5m",
}
"""The expected form of a string, where it must be more than any string."""
_SPECIAL = frozenset("./[]'\" ")
_EXPECTED: tuple[tuple[type[inspect.Type], str], ...] = (
    (inspect.StructType, "a map"),
    (inspect.DictType, "a map"),
    (inspect.ListType, "a list"),
    (inspect.VarTupleType, "a list"),
    (inspect.StrType, "a string"),
    (inspect.BoolType, "a boolean"),
    (inspect.IntType, "an integer"),
    (inspect.FloatType, "a number"),
)


def find_problems(type: type[Any], value: Any, *, check_formats: bool) -> list[Problem]:
    """All problems of `value` read as `type`; with `check_formats`, quantities, times and durations are parsed as
    well."""
    return list(_Walk(check_formats).walk(type_info(type), value, ""))


def problem_members(problems: Iterable[Problem]) -> set[str]:
    """The top-level members of a document with a problem in them."""
    return {problem.path.partition(".")[0].partition("[")[0] for problem in problems}


def problems_of_readable_members(unread: Sequence[Problem], checked: Iterable[Problem]) -> list[Problem]:
    """The problems of reading, and those of `checked` that are about members that were read completely: a check of a
    member that was read in part does not see what the user wrote."""
    known = problem_members(unread)
    return [*unread, *(problem for problem in checked if known.isdisjoint(problem_members([problem])))]


_TYPE_INFO: dict[Any, inspect.Type] = {}


def type_info(type: type[Any]) -> inspect.Type:
    """The description of a type, made once."""
    info = _TYPE_INFO.get(type)
    if info is None:
        info = _TYPE_INFO[type] = inspect.type_info(type)
    return info


class _Walk:
    def __init__(self, check_formats: bool) -> None:
        self.check_formats = check_formats

    def walk(self, info: inspect.Type, value: Any, path: str) -> Iterator[Problem]:
        format_name = None
        while isinstance(info, inspect.Metadata):
            format_name = (info.extra or {}).get("format", format_name)
            info = info.type
        if isinstance(info, inspect.UnionType):
            options = info.types
            if len(options) == 2 and inspect.NoneType() in options:
                rest = next(option for option in options if not isinstance(option, inspect.NoneType))
                if value is not None:
                    yield from self.walk(rest, value, path)
                return
        else:
            options = (info,)
        accepting = next((option for option in options if _accepts_value(option, value)), None)
        if accepting is None:
            yield Problem(
                path, f"expected {_FORMATS.get(format_name) or _expected_types(options)}, got {describe_value(value)}"
            )
        elif isinstance(accepting, inspect.StructType):
            yield from self.struct(accepting, value, path)
        elif isinstance(accepting, inspect.ListType | inspect.VarTupleType):
            for index, item in enumerate(value):
                yield from self.walk(accepting.item_type, item, f"{path}[{index}]")
        elif isinstance(accepting, inspect.DictType):
            for key, item in value.items():
                yield from self.walk(accepting.value_type, item, member_path(path, key))
        elif self.check_formats and format_name in CHECKS:
            yield from _check_format(CHECKS[format_name], value, path)

    def struct(self, info: inspect.StructType, value: dict[str, Any], path: str) -> Iterator[Problem]:
        members = _members(info)
        for key, (member, required) in members.items():
            if key in value:
                yield from self.walk(member, value[key], member_path(path, key))
            elif required:
                yield Problem(member_path(path, key), "missing")
        struct: type[msgspec.Struct] = get_origin(info.cls) or info.cls
        if struct.__struct_config__.forbid_unknown_fields:
            for key in value:
                if key not in members:
                    yield Problem(member_path(path, str(key)), f"unknown field{_spelling_hint(str(key), members)}")


def _spelling_hint(key: str, members: Iterable[str]) -> str:
    """A hint at the member that a misspelt name probably means."""
    close = {name.lower(): name for name in members}
    matches = get_close_matches(key.lower(), close, n=1, cutoff=0.75)
    return f" (did you mean {close[matches[0]]}?)" if matches else ""


_MEMBERS: dict[int, dict[str, tuple[inspect.Type, bool]]] = {}


def _members(info: inspect.StructType) -> dict[str, tuple[inspect.Type, bool]]:
    """The type of each member by its name on the wire, and whether it must be there.

    Kept by identity: descriptions live as long as `_TYPE_INFO`, and those of a generic struct differ by its argument.
    """
    members = _MEMBERS.get(id(info))
    if members is None:
        members = _MEMBERS[id(info)] = {member.encode_name: (member.type, member.required) for member in info.fields}
    return members


def member_path(path: str, key: str) -> str:
    """The path of a member; keys that contain dots or slashes are bracketed, as in labels['example.com/x']."""
    if not key or not _SPECIAL.isdisjoint(key):
        return f"{path}[{key!r}]"
    return f"{path}.{key}" if path else key


def describe_value(value: Any) -> str:
    """A value as an error message describes it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case dict():
            return "a map"
        case list():
            return "a list"
        case str():
            return f"the string {value[:40]!r}"
        case _:
            return f"the number {value}"


def _accepts_value(option: inspect.Type, value: Any) -> bool:
    while isinstance(option, inspect.Metadata):
        option = option.type
    match option:
        case inspect.AnyType():
            return True
        case inspect.NoneType():
            return value is None
        case inspect.StructType() | inspect.DictType():
            return isinstance(value, dict)
        case inspect.ListType() | inspect.VarTupleType():
            return isinstance(value, list)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.IntType():
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case inspect.FloatType():
            return not isinstance(value, bool) and isinstance(value, int | float)
        case _:
            return False


def _expected_types(options: tuple[inspect.Type, ...]) -> str:
    words: list[str] = []
    for option in options:
        while isinstance(option, inspect.Metadata):
            option = option.type
        words += [word for kind, word in _EXPECTED if isinstance(option, kind) and word not in words]
    return " or ".join(words)


def _check_format(parse: Callable[[Any], object], value: Any, path: str) -> Iterator[Problem]:
    try:
        parse(value)
    except (QuantityError, TimeError) as error:
        yield Problem(path, str(error))
