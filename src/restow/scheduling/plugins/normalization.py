"""Raw scores of any size to scores from 0 to BEST, in proportion to the largest."""

from __future__ import annotations

import numpy as np

from restow.scheduling.framework import BEST, Scores


def in_proportion(raw: Scores) -> Scores:
    """BEST for the largest, 0 for 0; all 0 where all are."""
    largest = int(raw.max(initial=0))
    return raw * BEST // largest if largest else np.zeros_like(raw)


def in_inverse_proportion(raw: Scores) -> Scores:
    """0 for the largest, BEST for 0."""
    return BEST - in_proportion(raw)
