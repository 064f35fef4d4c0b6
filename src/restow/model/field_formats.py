"""A fast check of decoded objects: are all their quantities, times and durations valid?

In: a decoded object. Out: yes or no. The fields to check (those with a format on their type, see `objects.base`) are
worked out once per type. Texts that were parsed before are not parsed again, because the objects of a cluster repeat
each other. `problems` names the mistakes, with paths, at a hundred times the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import inspect

from restow.model.problems import CHECKS, type_info
from restow.model.quantity import QuantityError
from restow.model.times import TimeError

Check = Callable[[Any], object]
"""Raises QuantityError or TimeError."""

_MAX_TEXTS = 65_536  # remembered per format


class _FormatTexts:
    """The values of one format. Valid texts are remembered, and None, which stands for a missing field; numbers are
    not, because equal numbers may be of different types."""

    __slots__ = ("_check", "_readable")

    def __init__(self, check: Check) -> None:
        self._check = check
        self._readable: set[Any] = {None}

    def __call__(self, value: Any) -> None:
        if value not in self._readable:
            self._check(value)
            if isinstance(value, str):
                self._remember(value)

    def every(self, values: Iterable[Any]) -> None:
        """Check several values; `values` can be iterated twice."""
        if not self._readable.issuperset(values):
            for value in values:
                self(value)

    def _remember(self, text: str) -> None:
        if len(self._readable) >= _MAX_TEXTS:
            self._readable = {None}
        self._readable.add(text)


class _FormattedMembers:
    """The members of a struct that have the same format."""

    __slots__ = ("_read", "_texts")

    def __init__(self, texts: _FormatTexts, names: Sequence[str]) -> None:
        self._texts = texts
        self._read: Callable[[Any], tuple[Any, ...]] = attrgetter(*names, names[0])  # twice the first: always a tuple

    def __call__(self, value: Any) -> None:
        self._texts.every(self._read(value))

    def each(self, values: Iterable[Any]) -> None:
        self._texts.every(tuple(chain.from_iterable(map(self._read, values))))


_TEXTS_OF_FORMAT = {name: _FormatTexts(check) for name, check in CHECKS.items()}


def are_formatted_fields_readable(value: msgspec.Struct) -> bool:
    """Whether every field with a format is valid."""
    check = _check_of_type(type(value))
    if check is None:
        return True
    try:
        check(value)
    except (QuantityError, TimeError):
        return False
    return True


_KNOWN: dict[type[Any], Check | None] = {}


def _check_of_type(kind: type[Any]) -> Check | None:
    if kind not in _KNOWN:
        _KNOWN[kind] = _check_of(type_info(kind), None)
    return _KNOWN[kind]


def _check_of(info: inspect.Type, format_name: str | None) -> Check | None:
    while isinstance(info, inspect.Metadata):
        format_name = (info.extra or {}).get("format", format_name)
        info = info.type
    if format_name in _TEXTS_OF_FORMAT:
        return _TEXTS_OF_FORMAT[format_name]
    match info:
        case inspect.UnionType():
            inner = [
                _check_of(option, format_name) for option in info.types if not isinstance(option, inspect.NoneType)
            ]
            return inner[0] if len(inner) == 1 else None
        case inspect.StructType():
            return _check_of_struct(info)
        case inspect.ListType():
            item = _check_of(info.item_type, None)
            return item and _check_items(item)
        case inspect.DictType():
            member = _check_of(info.value_type, None)
            return member and _check_values(member)
    return None


def _check_of_struct(info: inspect.StructType) -> Check | None:
    """The check of the members of a struct that lead to a format; a struct that contains itself is checked when it is
    met."""
    if info.cls in _KNOWN:
        return _KNOWN[info.cls]

    def itself(value: Any) -> None:
        check = _KNOWN[info.cls]
        if check is not None:
            check(value)

    _KNOWN[info.cls] = itself
    checks = {member.name: check for member in info.fields if (check := _check_of(member.type, None))}
    _KNOWN[info.cls] = _check_members(checks) if checks else None
    return _KNOWN[info.cls]


def _check_members(checks: Mapping[str, Check]) -> Check:
    marked: dict[_FormatTexts, list[str]] = {}
    for name, check in checks.items():
        if isinstance(check, _FormatTexts):
            marked.setdefault(check, []).append(name)
    parts: list[Check] = [_FormattedMembers(texts, names) for texts, names in marked.items()]
    parts += [_check_member(name, check) for name, check in checks.items() if not isinstance(check, _FormatTexts)]
    if len(parts) == 1:
        return parts[0]

    def members(value: Any) -> None:
        for part in parts:
            part(value)

    return members


def _check_member(name: str, check: Check) -> Check:
    return lambda value: None if (member := getattr(value, name)) is None else check(member)


def _check_items(check: Check) -> Check:
    if isinstance(check, _FormatTexts):
        return check.every
    if isinstance(check, _FormattedMembers):
        return check.each

    def items(value: list[Any]) -> None:
        for item in value:
            check(item)

    return items


def _check_values(check: Check) -> Check:
    if isinstance(check, _FormatTexts):
        return lambda value: check.every(value.values())

    def values(value: dict[str, Any]) -> None:
        for item in value.values():
            check(item)

    return values
