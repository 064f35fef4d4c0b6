"""Numbers of things in sentences: one of them is not written like several."""

from __future__ import annotations

from typing import Final

_ALONE: Final = {"are": "is", "were": "was", "have": "has"}


def number_of(count: int, noun: str, verb: str = "") -> str:
    """So many of them, and what they do, as several do it: `number_of(1, "pod", "stay")` is "1 pod stays"."""
    if count == 1:
        return f"1 {noun} {_ALONE.get(verb, f'{verb}s')}" if verb else f"1 {noun}"
    return f"{count:,} {noun}s {verb}".rstrip()
