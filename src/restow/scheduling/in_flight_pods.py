"""Flights: the pods that are being tried, and the news that came meanwhile.

Goes in: pods as attempts begin and end, and all news. Comes out, when an attempt ends, what happened since it began: it
may have looked before that. News are kept only as long as somebody in flight has not seen them.
"""

from __future__ import annotations

from collections.abc import Sequence

from restow.scheduling.cluster_events import ClusterEvent


class InFlightPods:
    __slots__ = ("_dropped", "_news", "_seen")

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}  # how many news there were when an attempt began, the oldest attempt first
        self._news: list[ClusterEvent] = []
        self._dropped = 0

    def begin(self, uid: str) -> None:
        self._seen[uid] = self._dropped + len(self._news)

    def missed(self, uid: str) -> Sequence[ClusterEvent] | None:
        """What happened since a pod's attempt began; None if it is not in flight."""
        seen = self._seen.get(uid)
        return None if seen is None else self._news[seen - self._dropped :]

    def end(self, uid: str) -> None:
        if self._seen.pop(uid, None) is not None:
            self._trim()

    def tell(self, news: ClusterEvent) -> None:
        if self._seen:
            self._news.append(news)

    def _trim(self) -> None:
        """Drop the news that everybody in flight has seen: the first to begin has seen the least."""
        needed = next(iter(self._seen.values()), self._dropped + len(self._news))
        if needed > self._dropped:
            del self._news[: needed - self._dropped]
            self._dropped = needed
