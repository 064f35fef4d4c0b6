"""Counted nouns in sentences, in singular and plural."""

from __future__ import annotations

from typing import Final

_ALONE: Final = {"are": "is", "were": "was", "have": "has"}


def counted_noun(count: int, noun: str, verb: str = "") -> str:
    """A number with its noun, and a verb given in the plural: `counted_noun(1, "pod", "stay")` is "1 pod stays"."""
    if count == 1:
        return f"1 {noun} {_ALONE.get(verb, f'{verb}s')}" if verb else f"1 {noun}"
    return f"{count:,} {noun}s {verb}".rstrip()
