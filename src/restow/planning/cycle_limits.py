"""The limits on moves in one cycle of the descheduler, and a counter of the moves planned so far.

Goes in: the limits of a cycle, then the moves of its plugins one by one. Comes out: the limit that one more move would
exceed. A plugin that moves all pods of a node or none counts them in a copy first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from restow.model.counted_nouns import counted_noun


class CycleLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods move in one cycle at most; None for any number."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


class MoveCounter:
    """Counts the moves of a cycle per node and per namespace. The total is checked by the caller."""

    def __init__(self, limits: CycleLimits | None = None) -> None:
        self._limits = limits or CycleLimits()
        self._counts: Counter[tuple[str, str]] = Counter()

    def copy(self) -> Self:
        copy = type(self)(self._limits)
        copy._counts = self._counts.copy()
        return copy

    def limit_on_pods(self, namespaces: Iterable[str], node: str) -> str:
        """The limit that moving all these pods off a node would exceed; empty if all may move. `namespaces` has the
        namespace of each pod."""
        trial = self.copy()
        for namespace in namespaces:
            if reason := trial.limit_reached(namespace, node):
                return reason
            trial.count_move(namespace, node)
        return ""

    def limit_reached(self, namespace: str, node: str) -> str:
        """The limit that one more move from a namespace and a node would exceed; empty if none."""
        for kind, name, limit, field in self._limited(namespace, node):
            if self._counts[kind, name] >= limit:
                return f"{field} allows {counted_noun(limit, 'pod')} of {kind} {name} per cycle"
        return ""

    def count_move(self, namespace: str, node: str) -> None:
        """Count one more move."""
        for kind, name, _, _ in self._limited(namespace, node):
            self._counts[kind, name] += 1

    def _limited(self, namespace: str, node: str) -> Iterator[tuple[str, str, int, str]]:
        """Kind and name of what is limited, the limit, and the field of the configuration that sets it."""
        limits = self._limits
        if limits.per_node is not None:
            yield "node", node, limits.per_node, "maxNoOfPodsToEvictPerNode"
        if limits.per_namespace is not None:
            yield "namespace", namespace, limits.per_namespace, "maxNoOfPodsToEvictPerNamespace"
