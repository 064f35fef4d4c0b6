"""Server-side apply and the field ownership that makes it possible."""

from __future__ import annotations

from typing import Any

from restow.adapters.memory.documents.mergepatch import merge_patch
from restow.adapters.memory.documents.merging import MergeTypes


def server_side_apply(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    *,
    manager: str,
    force: bool,
    now: str,
    merge: MergeTypes,
    subresource: str | None = None,
) -> dict[str, Any]:
    """The document after `manager` applied its intent; raises Conflict where others own what it changes."""
    merged: dict[str, Any] = merge_patch(live or {}, applied)
    return merged


def track_update(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    manager: str,
    now: str,
    operation: str = "Update",
    subresource: str | None = None,
    merge: MergeTypes,
) -> dict[str, Any]:
    """`new` with managedFields telling that `manager` set what differs from `old`."""
    return new
