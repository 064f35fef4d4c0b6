"""How the queue controller spends its API calls. What people configure is `queues.arguments`."""

from __future__ import annotations

import msgspec

from restow.defaults import HOME


class QueueControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = HOME
    """Where the ceilings are shown that the API server is to refuse by."""
    max_jobs: int = 50
    """That move pods for guarantees at once, waiting ones included."""
    retry_failed_after: float = 600.0
    """Seconds for which a pod is left alone whose migration failed."""
    resync_period: float = 60.0
    """Seconds after which everything is looked at again, even if nothing has happened."""
