"""Why a pod has no node, in one counted sentence; the same one in condition, event, CLI and dashboard.

    0/12 nodes are available: 3 Insufficient cpu, 9 node(s) had untolerated taint {dedicated: gpu}.

The form is kube-scheduler's, so that people and autoscalers read it as usual: every node counts for the first plugin
that refused it, with each of that plugin's reasons; reasons are sorted as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from restow.scheduling.framework import Refusal

NO_NODES = "no nodes available to schedule pods"


def counted(refused: Mapping[str, Sequence[Refusal]]) -> Counter[str]:
    """How many nodes each reason stands for."""
    counts: Counter[str] = Counter()
    for refusals in refused.values():
        for refusal in refusals:
            counts[refusal.reason] += int(refusal.rows.sum())
    return +counts


def sentence(nodes: int, reasons: Mapping[str, int], *, before: str = "", after: str = "") -> str:
    """The sentence: `before` is what stopped it before any node was asked, `after` what was tried afterwards."""
    why = before or histogram(reasons)
    if not nodes and not why:
        why = NO_NODES
    text = f"0/{nodes} nodes are available:" + (f" {why}." if why else "")
    return f"{text} {after}" if after else text


def histogram(reasons: Mapping[str, int]) -> str:
    """Each reason with its count, sorted as text."""
    return ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))


def joined(reasons: Iterable[str]) -> str:
    """Several reasons of one verdict."""
    return ", ".join(reasons)
