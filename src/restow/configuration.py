"""The configuration file: one YAML document with a section per part. Each part reads its own section.

Unknown sections are refused with their path, so that a misspelt one is not silently without effect.
"""

from __future__ import annotations

from typing import Any

import msgspec

from restow.model.problems import Problem
from restow.model.wire import WireError, convert, locate_documents


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sections as written."""

    scheduler: dict[str, Any] = {}
    descheduler: dict[str, Any] = {}
    migration: dict[str, Any] = {}
    reservations: dict[str, Any] = {}
    queues: dict[str, Any] = {}


def read_configuration(data: bytes, name: str) -> Configuration:
    """Read the file. Raises WireError."""
    located = locate_documents(data, name)
    if len(located) > 1:
        raise WireError(name, [Problem("", f"one document is expected, {len(located)} are there")])
    return convert(Configuration, located[0].document, name) if located else Configuration()
