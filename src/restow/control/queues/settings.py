"""How the queue controller spends its API calls, and what it is configured with. The section that people write is
`queues.arguments`."""

from __future__ import annotations

import msgspec

from restow.defaults import HOME
from restow.migration.arguments import MigrationArguments
from restow.queues.arguments import QueueArguments


class QueueControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = HOME
    """The namespace of the ConfigMap with the admission parameters."""
    max_jobs: int = 50
    """How many jobs may move pods off locked nodes at the same time, waiting jobs included."""
    retry_failed_after: float = 600.0
    """After a failed migration, the pod is left alone for so many seconds."""
    resync_period: float = 60.0
    """After so many seconds without a change, everything is checked again."""


class QueueControllerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue controller works by."""

    scheduler_names: frozenset[str]
    """The pods of these schedulers are the jobs of queues."""
    arguments: QueueArguments = QueueArguments()
    migration: MigrationArguments = MigrationArguments()
    """The rules by which pods are moved off locked nodes."""
    settings: QueueControllerSettings = QueueControllerSettings()
