"""The timing of informers."""

from __future__ import annotations

import msgspec


class InformerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an informer lists and watches; times in seconds."""

    page_size: int = 500
    """Objects per page of a list."""
    backoff: float = 1.0
    backoff_cap: float = 30.0
    watch_timeout_min: int = 300
    watch_timeout_max: int = 600
    """The server ends a watch after a random time in this range, so that informers do not reconnect together."""
    idle_timeout: float = 180.0
    """A watch without any event, not even a bookmark, is ended after this time."""
    initial_idle_timeout: float = 10.0
    """The same for the initial events of a watch-list, which come without pauses."""
    healthy_after: float = 5.0
    """A watch that lasts this long resets the back-off even without news."""
    relist_interval: float | None = None
    """List again after this time, to heal lost events; None for servers that do not lose any."""
