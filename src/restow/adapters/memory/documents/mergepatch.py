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


def merge_diff(source: Any, target: Any) -> Any:
    """The smallest merge patch from `source` to `target`, which must not contain nulls (a patch cannot say them)."""
    if not isinstance(source, dict) or not isinstance(target, dict):
        return target
    patch: dict[str, Any] = {name: None for name in source if name not in target}
    for name, value in target.items():
        if name not in source:
            patch[name] = value
        elif source[name] != value or type(source[name]) is not type(value):
            patch[name] = merge_diff(source[name], value)
    return patch
