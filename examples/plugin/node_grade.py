"""NodeGrade: nodes carry a grade as a label; good grades attract pods, refused grades take none.

arguments:
  label: example.com/grade            # the default
  worth: {gold: 100, silver: 60}      # 0..100 by grade; a grade that is not listed, or none, is worth 0
  refused: [scrap]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from restow.model.cluster import Mask, Which
from restow.scheduling.framework import (
    BEST,
    ArgumentError,
    Cycle,
    FilterPlugin,
    Reach,
    Refusal,
    ScorePlugin,
    Scores,
)


class NodeGrade(FilterPlugin, ScorePlugin):
    name: ClassVar[str] = "NodeGrade"
    reach: ClassVar[Reach] = Reach.NODE
    """A label of the node decides, so we are asked again only about nodes that changed."""

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        given = {"label": "example.com/grade", "worth": {}, "refused": [], **(arguments or {})}
        problems = [f"{key}: unknown field" for key in sorted(given) if key not in ("label", "worth", "refused")]
        if not isinstance(given["label"], str):
            problems.append("label: expected a string")
        if not isinstance(given["worth"], dict) or not all(_is_score(one) for one in given["worth"].values()):
            problems.append(f"worth: expected a map of grades to integers from 0 to {BEST}")
        if not isinstance(given["refused"], list) or not all(isinstance(one, str) for one in given["refused"]):
            problems.append("refused: expected a list of grades")
        if problems:
            raise ArgumentError(problems)
        self._label: str = given["label"]
        self._worth: dict[str | None, int] = given["worth"]
        self._refused: list[str] = given["refused"]

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        column = cycle.snapshot.nodes.labels.column(self._label)
        accepted = np.array([value not in self._refused for value in column.values])  # once per distinct value
        mask: Mask = accepted[column.ids[rows]]
        return mask

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return [Refusal(f"node(s) had a refused {self._label}", ~self.filter(cycle, rows), resolvable=False)]

    def score(self, cycle: Cycle, rows: Which) -> Scores:
        column = cycle.snapshot.nodes.labels.column(self._label)
        worth = np.array([self._worth.get(value, 0) for value in column.values], np.int64)
        scores: Scores = worth[column.ids[rows]]
        return scores


def _is_score(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= BEST
