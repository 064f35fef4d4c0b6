"""The parts of the scheduler that know about reservations, apart from the controller that writes their status."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from restow.control.scheduler.consumption_writes import ConsumptionWrites
from restow.control.scheduler.dependencies import SchedulerDependencies
from restow.control.scheduler.reservation_observer import ReservationObserver
from restow.control.scheduler.reservation_queue_entries import ReservationQueueEntries
from restow.control.scheduler.reservation_updates import ReservationUpdates
from restow.control.scheduler.reservation_work_queue import ReservationWorkQueue
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.control.scheduler.written_statuses import WrittenStatuses
from restow.scheduling.queue.scheduling_queue import SchedulingQueue


@dataclass(frozen=True, slots=True)
class ReservationParts:
    observer: ReservationObserver
    """What is true of a reservation."""
    written: WrittenStatuses
    """Which versions are our own writes."""
    work: ReservationWorkQueue
    """Which reservations the status controller looks at, and when."""
    entries: ReservationQueueEntries
    """Reservations in the scheduling queue."""
    updates: ReservationUpdates
    """What a new version of a reservation changes."""


def make_reservation_parts(
    dependencies: SchedulerDependencies, cache: SchedulerCache, queue: SchedulingQueue, binding_slots: asyncio.Semaphore
) -> ReservationParts:
    """Make the parts, each from those before it. `binding_slots` are the writes that binding cycles may have under way
    at once; writes that can wait let them go first."""
    settings = dependencies.settings
    observer = ReservationObserver(cache, dependencies.profile.engine, settings.namespace_share)
    written = WrittenStatuses(dependencies.recorder)
    consumption_writes = ConsumptionWrites(settings, binding_slots)
    work = ReservationWorkQueue(cache.snapshot, observer, written, consumption_writes)
    entries = ReservationQueueEntries(cache, queue, observer)
    updates = ReservationUpdates(cache, queue, entries, work)
    return ReservationParts(observer, written, work, entries, updates)
