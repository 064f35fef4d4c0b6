"""Arguments of plugins: from a configuration file's map to a typed value, with every mistake named at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from restow.model.wire import WireError, convert_document
from restow.scheduling.framework import ArgumentError

T = TypeVar("T", bound=msgspec.Struct)


def read_arguments(type: type[T], arguments: Mapping[str, Any] | None) -> T:
    """Raises ArgumentError: unknown fields (of Structs that forbid them) and wrong types, each with its path."""
    try:
        return convert_document(type, arguments or {}, "arguments")
    except WireError as error:
        raise ArgumentError([str(problem) for problem in error.problems]) from None
