"""How the descheduler and `restow apply` spend their time and API calls, and what they are configured with. The section
that people write is `planning.descheduling.policy`."""

from __future__ import annotations

import msgspec

from restow.defaults import HOME
from restow.migration.arguments import MigrationArguments
from restow.planning.descheduling.policy import DeschedulerPolicy
from restow.ports import Prometheus
from restow.scheduling.registry import Profile as SchedulerProfile


class DeschedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All times are in seconds."""

    namespace: str = HOME
    """The namespace of the stop switch and of the Lease `restow-cycle`."""
    identity: str = "a descheduler"
    """The holder of the Lease, as other processes name it when they have to wait."""
    max_moves: int = 50
    """Per cycle, unless maxNoOfPodsToEvictTotal is set."""
    retry_failed_after: float = 600.0
    """After a failed migration, the pod is left alone for this long."""
    poll_interval: float = 5.0
    """How often a waiting run checks whether it is still blocked."""
    clock_check_interval: float = 60.0
    """How often the clock is read while a scheduled run is waited for. One long sleep would miss that the machine was
    suspended, or that its clock was set."""
    attempts: int = 5
    """How often a scheduled run is tried while the API server fails."""
    retry_interval: float = 60.0
    """Between two of these attempts."""
    place_ttl: float = 900.0
    """The time to live of a place reservation. While the plan is carried out, it is extended."""
    place_patience: float = 60.0
    """After the last move: how long to wait for the pods to take the places that are reserved for them."""


class DeschedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """What a descheduler works by."""

    policy: DeschedulerPolicy
    scheduler: SchedulerProfile
    """The profile of the scheduler that places the successors: its filters decide where a pod fits."""
    migration: MigrationArguments = MigrationArguments()
    settings: DeschedulerSettings = DeschedulerSettings()
    prometheus: Prometheus | None = None
    """The server that the policy names."""


class ApplyConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """What `restow apply` works by."""

    scheduler: SchedulerProfile
    migration: MigrationArguments
    settings: DeschedulerSettings = DeschedulerSettings()
    strict: bool = False
    """Stop as soon as the plan is not valid any more, instead of repairing it."""
