"""What a test knows about a value and its type does not say: checked, so that the rest of the test is typed."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value, which must not be None."""
    assert value is not None
    return value


def instance(kind: type[T], value: object) -> T:
    """The value, which must be of this type."""
    assert isinstance(value, kind), f"not a {kind.__name__}: {value!r}"
    return value
