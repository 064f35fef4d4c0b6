"""Upstream's defaults of the built-in kinds, set in place on a private document."""

from __future__ import annotations

from typing import Any


def apply_defaults(doc: dict[str, Any], *, group: str, kind: str) -> None:
    """Fill what upstream fills; never overwrites a value that is there."""
