"""How the migration controller spends its time and its API calls. What users configure is in `migration.arguments`."""

from __future__ import annotations

import msgspec

from restow.defaults import HOME


class MigrationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    namespace: str = HOME
    """The namespace of the stop switch."""
    verdict_writers: int = 16
    """Verdicts of one arbitration that are written at once."""
    event_writers: int = 2
    garbage_collection_period: float = 60.0
    """Between two garbage collections."""
    limit_report_interval: float = 10.0
    """Between two messages with new numbers of the same limit that a job waits for."""
    reported_turn_delay: float = 5.0
    """A job whose turn to evict is further away than this says so in its status."""
