"""JSON merge patch (RFC 7386): null removes, objects merge, everything else replaces."""

from __future__ import annotations

from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """The patched value; shares what the patch does not touch, changes neither argument."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge_patch(merged.get(name), value)
        else:
            merged[name] = value
    return merged
