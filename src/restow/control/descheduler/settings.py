"""How the descheduler spends its time and its API calls. What people configure is `planning.descheduling.policy`."""

from __future__ import annotations

import msgspec

from restow.defaults import HOME


class DeschedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    namespace: str = HOME
    """Where the stop switch is, and the Lease of whose turn it is."""
    identity: str = "a descheduler"
    """Who does the work, as others are told who want to do some."""
    max_moves: int = 50
    """In one cycle, where maxNoOfPodsToEvictTotal does not say."""
    retry_failed_after: float = 600.0
    """For which a pod is left alone whose migration failed."""
    poll_interval: float = 5.0
    """Between two looks whether what was in the way of a run still is."""
    clock_check_interval: float = 60.0
    """Between two looks at the clock while a schedule is waited for: machines sleep, and clocks are put right."""
    attempts: int = 5
    """Of a run that is due by a schedule, while the API server is in trouble."""
    retry_interval: float = 60.0
    place_ttl: float = 900.0
    """For which the room that a plan gathers is claimed; whoever carries the plan out extends it."""
    place_patience: float = 60.0
    """How long to wait, once everything has moved, for pods to take what is claimed for them."""
