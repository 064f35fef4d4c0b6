"""What updates of a reservation change in the snapshot and in the scheduling queue, in whatever order they arrive."""

from __future__ import annotations

import random
from typing import NamedTuple

from msgspec.structs import replace

from restow.adapters.memory import MemoryApi
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.scheduler.reservation_observer import ReservationObserver
from restow.control.scheduler.reservation_queue_entries import ReservationQueueEntries
from restow.control.scheduler.reservation_updates import ReservationUpdates
from restow.control.scheduler.reservation_work_queue import ReservationWorkQueue
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.objects import ObjectMeta, Pod, Reservation
from restow.model.snapshot import Snapshot
from restow.scheduling.queue.queued_pod import QueueState
from restow.scheduling.queue.scheduling_queue import SchedulingQueue
from restow.sim.loop import VirtualClock
from tests.model.cluster.builders import placements_of
from tests.model.reservations.builders import web_reservation
from tests.scheduling.reservations.session_cluster import PROFILE
from tests.sim.simulated_cluster import on_virtual_time


class _RecordedWork(ReservationWorkQueue):
    """A work queue that records which changes it is told of, and does nothing."""

    def __init__(self) -> None:
        self.versions: list[tuple[str, bool]] = []

    def reservation_changed(self, reservation: Reservation, *, gone: bool) -> None:
        self.versions.append((reservation.metadata.resource_version, gone))


class _Parts(NamedTuple):
    snapshot: Snapshot
    queue: SchedulingQueue
    entries: ReservationQueueEntries
    updates: ReservationUpdates
    work: _RecordedWork


def parts() -> _Parts:
    api = MemoryApi(VirtualClock(), random.Random(1))
    cache = SchedulerCache(SharedInformers(Client(api, manager="test"), random.Random(1)), frozenset({"restow"}))
    queue, work = SchedulingQueue(), _RecordedWork()
    observer = ReservationObserver(cache, PROFILE.engine, 50)
    entries = ReservationQueueEntries(cache, queue, observer)
    return _Parts(cache.snapshot, queue, entries, ReservationUpdates(cache, queue, entries, work), work)


def recreated(reservation: Reservation, version: int) -> Reservation:
    """Another reservation of the same name."""
    metadata = replace(reservation.metadata, uid="uid-next", resource_version=str(version))
    return replace(reservation, metadata=metadata)


def entry(uid: str) -> Pod:
    return Pod(metadata=ObjectMeta(uid=uid))


@on_virtual_time
async def test_a_recreated_reservation_has_none_of_the_seats_assumed_for_the_old_one() -> None:
    """The end of the earlier one was never shown."""
    snapshot, queue, entries, updates, _ = parts()
    before = web_reservation("r", version=1)
    updates.upsert_reservation(before)
    snapshot.assume_placements(before, placements_of({0: "n1"}), at=1.0)
    updates.upsert_reservation(recreated(before, 2))
    assert snapshot.reservations.seats("default", "r") == []
    assert [pod.metadata.uid for pod in queue.pods(QueueState.ACTIVE)] == ["uid-next"]
    assert not entries.is_entry(entry(before.metadata.uid))


@on_virtual_time
async def test_events_older_than_our_own_write_are_dropped() -> None:
    _, _, _, updates, work = parts()
    held, consumed = web_reservation("r", at={0: "n1"}, version=8), web_reservation("r", phase="Succeeded", version=9)
    for reservation in (held, consumed, held, consumed):
        updates.upsert_reservation(reservation)
    updates.remove_reservation(held)
    updates.upsert_reservation(consumed)
    assert work.versions == [("8", False), ("9", False), ("8", True)]


@on_virtual_time
async def test_events_of_an_earlier_reservation_of_that_name_are_dropped() -> None:
    snapshot, _, entries, updates, work = parts()
    before = web_reservation("r", version=1)
    now = recreated(before, 5)
    updates.upsert_reservation(now)
    snapshot.assume_placements(now, placements_of({0: "n1"}), at=1.0)
    work.versions.clear()
    updates.upsert_reservation(replace(before, metadata=replace(before.metadata, resource_version="2")))
    updates.remove_reservation(replace(before, metadata=replace(before.metadata, resource_version="3")))
    assert (work.versions, len(snapshot.reservations.seats("default", "r"))) == ([], 1)
    assert entries.is_entry(entry("uid-next"))


@on_virtual_time
async def test_a_reservation_with_an_invalid_spec_is_not_queued() -> None:
    _, queue, _, updates, _ = parts()
    invalid = web_reservation("r")
    updates.upsert_reservation(replace(invalid, spec=replace(invalid.spec, tasks=[])))
    assert queue.pods(QueueState.ACTIVE) == []
    updates.upsert_reservation(web_reservation("valid"))
    assert [pod.metadata.name for pod in queue.pods(QueueState.ACTIVE)] == ["valid"]
