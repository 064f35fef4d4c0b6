"""The results of the engine: the best node for a pod, or why there is none; the answer of every node; Permit's
answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from restow.scheduling.explain import count_reasons, fit_error_message, join_reasons
from restow.scheduling.framework import Code, Refusal, Verdict


class NodeFound(msgspec.Struct, frozen=True, gc=False):
    """The best node for the pod."""

    node: str
    row: int
    score: int
    """The weighted sum of scores; 0 if scoring was not needed."""


class NoNodeFound(msgspec.Struct, frozen=True):
    """No node, and why."""

    verdict: Verdict
    """The code to act on; the plugin and its reasons if one plugin refused all nodes."""
    node_count: int
    """How many nodes there are."""
    refusals: Mapping[str, Sequence[Refusal]] = {}
    """By plugin, in order; masks over all rows. Each node is counted for the first plugin that refuses it."""
    post_filter_message: str = ""
    """The reasons that PostFilter gave."""
    nominated: str = ""
    """The node on which PostFilter wants room kept for the pod."""

    @property
    def message(self) -> str:
        if self.verdict.code is Code.ERROR:
            return join_reasons(self.verdict.reasons)
        return fit_error_message(
            self.node_count,
            count_reasons(self.refusals),
            before=join_reasons(self.verdict.reasons),
            after=self.post_filter_message,
        )

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins that refused: the events that they registered may change it."""
        return frozenset([self.verdict.plugin] if self.verdict.plugin else self.refusals)


class Diagnosis(msgspec.Struct, frozen=True):
    """The answer of every node to a pod (kube-scheduler's Diagnosis)."""

    feasible: tuple[str, ...]
    """The nodes it may go to, by name."""
    refusals: Mapping[str, Sequence[Refusal]]
    """By plugin, in order; masks over all rows. Each node is counted for the first plugin that refuses it."""
    message: str
    """Why there is no node, if there is none."""


class PermitResult(msgspec.Struct, frozen=True):
    """Permit's answer: bind, or wait for these plugins this many seconds at most."""

    waits: Mapping[str, float] = {}


PERMITTED = PermitResult()
