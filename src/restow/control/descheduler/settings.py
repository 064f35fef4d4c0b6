"""How the descheduler spends its time and its API calls. What people configure is `planning.descheduling.policy`."""

from __future__ import annotations

import msgspec

from restow.defaults import HOME


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    namespace: str = HOME
    """Where the stop switch is, and the Lease of whose turn it is."""
    who: str = "a descheduler"
    """Who does the work, as others are told who want to do some."""
    most_moves: int = 50
    """In one cycle, where maxNoOfPodsToEvictTotal does not say."""
    after_failure: float = 600.0
    """For which a pod is left alone whose migration failed."""
    look_again: float = 5.0
    """Between two looks whether what was in the way of a run still is."""
    look_at_clock: float = 60.0
    """Between two looks at the clock while a schedule is waited for: machines sleep, and clocks are put right."""
    tries: int = 5
    """Of a run that is due by a schedule, while the API server is in trouble."""
    try_again: float = 60.0
    claim_seconds: float = 900.0
    """For which the room that a plan gathers is claimed; whoever carries the plan out extends it."""
    claim_patience: float = 60.0
    """How long to wait, once everything has moved, for pods to take what is claimed for them."""
