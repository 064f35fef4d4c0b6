"""Marks on typed objects: do all quantities, times and durations in it read?

Goes in: an object that was decoded. Comes out: yes or no. What has to be looked at is worked out once per type, and
most fields lead to no mark; `problems` says what is wrong, with paths, at a hundred times the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import inspect

from restow.model.problems import CHECKS, type_info
from restow.model.quantity import QuantityError
from restow.model.times import TimeError

Check = Callable[[Any], object]
"""Raises QuantityError or TimeError."""


def are_readable(value: msgspec.Struct) -> bool:
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
    if mark in CHECKS:
        return CHECKS[mark]
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
    if len(checks) == 1:
        ((name, only),) = checks.items()
        return lambda value: None if (member := getattr(value, name)) is None else only(member)
    read, wanted = attrgetter(*checks), tuple(checks.values())

    def members(value: Any) -> None:
        for member, check in zip(read(value), wanted, strict=True):
            if member is not None:
                check(member)

    return members


def _each(check: Check) -> Check:
    def items(value: list[Any]) -> None:
        for item in value:
            check(item)

    return items


def _each_value(check: Check) -> Check:
    def values(value: dict[str, Any]) -> None:
        for item in value.values():
            check(item)

    return values
