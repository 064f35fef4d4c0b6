"""The mistakes in a document: a growing list of causes, each with the path of its field, in upstream's phrasing.

Rules take a `FieldErrors` and add to it; they go on after the first mistake, so that one answer names all mistakes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from restow.ports import StatusCause


def invalid_value(field: str, value: Any, why: str) -> StatusCause:
    return StatusCause(reason="FieldValueInvalid", field=field, message=f"Invalid value: {_shown_value(value)}: {why}")


def required_value(field: str, why: str = "") -> StatusCause:
    message = f"Required value: {why}" if why else "Required value"
    return StatusCause(reason="FieldValueRequired", field=field, message=message)


def forbidden_value(field: str, why: str) -> StatusCause:
    return StatusCause(reason="FieldValueForbidden", field=field, message=f"Forbidden: {why}")


def unsupported_value(field: str, value: Any, supported: Iterable[str]) -> StatusCause:
    known = ", ".join(json.dumps(each) for each in supported)
    message = f"Unsupported value: {_shown_value(value)}: supported values: {known}"
    return StatusCause(reason="FieldValueNotSupported", field=field, message=message)


class FieldErrors:
    __slots__ = ("causes",)

    def __init__(self) -> None:
        self.causes: list[StatusCause] = []

    def _add(self, reason: str, field: str, message: str) -> None:
        self.causes.append(StatusCause(reason=reason, field=field, message=message))

    def invalid(self, field: str, value: Any, why: str) -> None:
        self.causes.append(invalid_value(field, value, why))

    def required(self, field: str, why: str = "") -> None:
        self.causes.append(required_value(field, why))

    def forbidden(self, field: str, why: str) -> None:
        self.causes.append(forbidden_value(field, why))

    def unsupported(self, field: str, value: Any, supported: Iterable[str]) -> None:
        self.causes.append(unsupported_value(field, value, supported))

    def duplicate(self, field: str, value: Any) -> None:
        self._add("FieldValueDuplicate", field, f"Duplicate value: {_shown_value(value)}")

    def not_found(self, field: str, value: Any) -> None:
        self._add("FieldValueNotFound", field, f"Not found: {_shown_value(value)}")

    def too_long(self, field: str, limit: int) -> None:
        self._add("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")

    def too_many(self, field: str, count: int, limit: int) -> None:
        items = "item" if limit == 1 else "items"
        self._add("FieldValueTooMany", field, f"Too many: {count}: must have at most {limit} {items}")

    def wrong_type(self, field: str, value: Any, why: str) -> None:
        self._add("FieldValueTypeInvalid", field, f"Invalid value: {_shown_value(value)}: {why}")

    def all_invalid(self, field: str, value: Any, problems: Iterable[str]) -> None:
        for problem in problems:
            self.invalid(field, value, problem)

    def immutable(self, field: str, old: Any, new: Any) -> None:
        if old != new:
            self.invalid(field, new, "field is immutable")


def _shown_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= 1024 else text[:1024] + "..."
