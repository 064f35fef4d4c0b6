"""A fast check of decoded objects: are all their quantities, times and durations valid?

In: a decoded object. Out: yes or no. The fields to check (those with a mark on their type, see `objects.base`) are
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

_REMEMBERED = 65_536  # texts of a mark


class _Texts:
    """What is written under one mark. Texts that were found to read are remembered, and None, which stands for absent;
    numbers are not, as equal ones may be of different types."""

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
        """The same for several at once; `values` can be gone through again."""
        if not self._readable.issuperset(values):
            for value in values:
                self(value)

    def _remember(self, text: str) -> None:
        if len(self._readable) >= _REMEMBERED:
            self._readable = {None}
        self._readable.add(text)


class _Marked:
    """The members of a struct that have the same mark."""

    __slots__ = ("_read", "_texts")

    def __init__(self, texts: _Texts, names: Sequence[str]) -> None:
        self._texts = texts
        self._read: Callable[[Any], tuple[Any, ...]] = attrgetter(*names, names[0])  # twice the first: always a tuple

    def __call__(self, value: Any) -> None:
        self._texts.every(self._read(value))

    def each(self, values: Iterable[Any]) -> None:
        self._texts.every(tuple(chain.from_iterable(map(self._read, values))))


_TEXTS = {mark: _Texts(check) for mark, check in CHECKS.items()}


def are_marked_fields_readable(value: msgspec.Struct) -> bool:
    """Whether every mark in the object reads."""
    check = _of_type(type(value))
    if check is None:
        return True
    try:
        check(value)
    except (QuantityError, TimeError):
        return False
    return True


_KNOWN: dict[type[Any], Check | None] = {}


def _of_type(kind: type[Any]) -> Check | None:
    if kind not in _KNOWN:
        _KNOWN[kind] = _of(type_info(kind), None)
    return _KNOWN[kind]


def _of(info: inspect.Type, mark: str | None) -> Check | None:
    while isinstance(info, inspect.Metadata):
        mark = (info.extra or {}).get("mark", mark)
        info = info.type
    if mark in _TEXTS:
        return _TEXTS[mark]
    match info:
        case inspect.UnionType():
            inner = [_of(option, mark) for option in info.types if not isinstance(option, inspect.NoneType)]
            return inner[0] if len(inner) == 1 else None
        case inspect.StructType():
            return _of_struct(info)
        case inspect.ListType():
            item = _of(info.item_type, None)
            return item and _each(item)
        case inspect.DictType():
            member = _of(info.value_type, None)
            return member and _each_value(member)
    return None


def _of_struct(info: inspect.StructType) -> Check | None:
    """The members of a struct that lead to a mark; one that contains itself is looked at when it is met."""
    if info.cls in _KNOWN:
        return _KNOWN[info.cls]

    def itself(value: Any) -> None:
        check = _KNOWN[info.cls]
        if check is not None:
            check(value)

    _KNOWN[info.cls] = itself
    checks = {member.name: check for member in info.fields if (check := _of(member.type, None))}
    _KNOWN[info.cls] = _members(checks) if checks else None
    return _KNOWN[info.cls]


def _members(checks: Mapping[str, Check]) -> Check:
    marked: dict[_Texts, list[str]] = {}
    for name, check in checks.items():
        if isinstance(check, _Texts):
            marked.setdefault(check, []).append(name)
    parts: list[Check] = [_Marked(texts, names) for texts, names in marked.items()]
    parts += [_member(name, check) for name, check in checks.items() if not isinstance(check, _Texts)]
    if len(parts) == 1:
        return parts[0]

    def members(value: Any) -> None:
        for part in parts:
            part(value)

    return members


def _member(name: str, check: Check) -> Check:
    return lambda value: None if (member := getattr(value, name)) is None else check(member)


def _each(check: Check) -> Check:
    if isinstance(check, _Texts):
        return check.every
    if isinstance(check, _Marked):
        return check.each

    def items(value: list[Any]) -> None:
        for item in value:
            check(item)

    return items


def _each_value(check: Check) -> Check:
    if isinstance(check, _Texts):
        return lambda value: check.every(value.values())

    def values(value: dict[str, Any]) -> None:
        for item in value.values():
            check(item)

    return values
