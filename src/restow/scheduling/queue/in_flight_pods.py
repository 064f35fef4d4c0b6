"""The pods that are being tried, and the cluster events since their attempts began.

Goes in: pods as attempts begin and end, and all events. Comes out, when an attempt ends, what happened since it began:
it may have looked before that. An event is kept only until no pod in flight has yet to see it.
"""

from __future__ import annotations

from collections.abc import Sequence

from restow.scheduling.cluster_events import ClusterEvent


class InFlightPods:
    __slots__ = ("_began", "_dropped", "_events")

    def __init__(self) -> None:
        self._began: dict[str, int] = {}
        """How many events there had been when the attempt of a pod began, the oldest attempt first."""
        self._events: list[ClusterEvent] = []
        self._dropped = 0

    def begin(self, uid: str) -> None:
        self._began[uid] = self._dropped + len(self._events)

    def end(self, uid: str) -> None:
        if self._began.pop(uid, None) is not None:
            self._drop_seen_events()

    def events_since(self, uid: str) -> Sequence[ClusterEvent] | None:
        """What happened since a pod's attempt began; None if it is not in flight."""
        began = self._began.get(uid)
        return None if began is None else self._events[began - self._dropped :]

    def record(self, event: ClusterEvent) -> None:
        if self._began:
            self._events.append(event)

    def _drop_seen_events(self) -> None:
        """Drop the events from before the oldest attempt: no pod in flight needs them."""
        needed = next(iter(self._began.values()), self._dropped + len(self._events))
        if needed > self._dropped:
            del self._events[: needed - self._dropped]
            self._dropped = needed
