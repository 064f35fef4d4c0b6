"""Refusals out of masks."""

from __future__ import annotations

from restow.model.cluster import Mask
from restow.scheduling.framework import Refusal


def refusals_of(reason: str, rows: Mask, *, resolvable: bool = False) -> list[Refusal]:
    """One refusal of these rows, or none if there is no such row."""
    return [Refusal(reason, rows, resolvable)] if rows.any() else []
