"""How the scheduler spends its time and its API calls."""

from __future__ import annotations

import msgspec


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    ahead: int = 1000
    """Pods decided and not yet bound, at most: deciding later is deciding on fresher facts, and the more there are, the
    longer somebody important who comes late has to wait."""
    at_once: int = 250
    """Pods decided in one session, at most, and while more wait at least: alike ones cost less together, but nobody
    is bound meanwhile."""
    writers: int = 64
    """Bindings and the writes before them under way at once: as many as keep the server busy while we decide."""
    status_writers: int = 8
    mark_writers: int = 4
    """Statuses of reservations written at once to mark taken seats: one costs as much as several bindings."""
    mark_patience: float = 30.0
    """How long marks may be put off by bindings that wait for their turn."""
    event_writers: int = 4
    leak_check: float = 15.0
    """Between two looks at assumptions that the API has not confirmed."""
    leak_age: float = 30.0
    """How old such an assumption is before the API is asked about it."""
    expiry_check: float = 1.0
    """Between two looks at reservations whose time may be over."""
    namespace_share: int = 50
    """How much of what the cluster offers one namespace may hold by reservations, in percent of every resource."""
    settle_limit: float = 900.0
    """How long a PreBind plugin that sets no limit of its own may wait for its writes to take effect."""
