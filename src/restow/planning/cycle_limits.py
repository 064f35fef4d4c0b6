"""Limits: how many pods may move in one cycle, and how many have been planned to so far.

Goes in: the limits of a cycle, then the moves of its plugins one by one. Comes out: which limit keeps one more pod
back. Whoever must not begin what it could not end asks a copy first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Self

import msgspec


class CycleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that move in one cycle at most; None for any number."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


class MoveCounter:
    """What a cycle has planned so far, held against its limits; the total is the caller's business."""

    def __init__(self, limits: CycleLimits | None = None) -> None:
        self._limits = limits or CycleLimits()
        self._counts: Counter[tuple[str, str]] = Counter()

    def copy(self) -> Self:
        made = type(self)(self._limits)
        made._counts = self._counts.copy()
        return made

    def limit_on_pods(self, namespaces: Iterable[str], node: str) -> str:
        """Which limit keeps some of these pods, named by their namespaces, on their node; empty if all may leave."""
        trial = self.copy()
        for namespace in namespaces:
            if why := trial.limit_reached(namespace, node):
                return why
            trial.count_move(namespace, node)
        return ""

    def limit_reached(self, namespace: str, node: str) -> str:
        """Which limit keeps one more pod of a namespace on its node; empty if none does."""
        for kind, name, most, field in self._limited(namespace, node):
            if self._counts[kind, name] >= most:
                return f"{field} is {most}, and so many pods of {kind} {name} move in this cycle"
        return ""

    def count_move(self, namespace: str, node: str) -> None:
        """Count one more."""
        for kind, name, _, _ in self._limited(namespace, node):
            self._counts[kind, name] += 1

    def _limited(self, namespace: str, node: str) -> Iterator[tuple[str, str, int, str]]:
        limits = self._limits
        if limits.per_node is not None:
            yield "node", node, limits.per_node, "maxNoOfPodsToEvictPerNode"
        if limits.per_namespace is not None:
            yield "namespace", namespace, limits.per_namespace, "maxNoOfPodsToEvictPerNamespace"
