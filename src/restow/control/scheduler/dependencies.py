"""What most parts of the scheduler need and none of them changes."""

from __future__ import annotations

from dataclasses import dataclass

from restow.client.event_recorder import EventRecorder
from restow.client.verbs import Client
from restow.control.scheduler.settings import SchedulerSettings
from restow.ports import Clock
from restow.scheduling.registry import Profile


@dataclass(frozen=True, slots=True)
class SchedulerDependencies:
    client: Client
    clock: Clock
    recorder: EventRecorder
    profile: Profile
    settings: SchedulerSettings
