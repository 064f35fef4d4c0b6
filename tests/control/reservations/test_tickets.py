"""Tickets: what of a reservation waits in the queue, whatever of its news arrives."""

from __future__ import annotations

from msgspec.structs import replace

from restow.control.scheduler.reservation_queue_entries import ReservationQueueEntries
from restow.model.objects import ObjectMeta, Pod, Reservation
from restow.model.snapshot import Snapshot
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.queue import SchedulingQueue, Where
from tests.model.cluster.builders import placements_of
from tests.scheduling.reservations.stage import booking
from tests.sim.stage import virtual


@virtual
async def test_of_one_that_only_has_the_name_of_an_earlier_one_nothing_is_decided_yet() -> None:
    """The end of the earlier one was never shown."""
    snapshot, queue = Snapshot(), SchedulingQueue()
    tickets = ReservationQueueEntries(snapshot, PodGroupCache(), queue, frozenset({"restow"}))
    before = booking("r", version=1)
    tickets.show(before)
    snapshot.assume_placements(before, placements_of({0: "n1"}), at=1.0)
    tickets.show(renewed(before, 2))
    assert snapshot.reservations.seats("default", "r") == []
    assert [one.metadata.uid for one in queue.pods(Where.ACTIVE)] == ["uid-next"]
    assert not tickets.is_ticket(Pod(metadata=ObjectMeta(uid=before.metadata.uid)))


def renewed(one: Reservation, version: int) -> Reservation:
    """Another one of the same name."""
    return replace(one, metadata=replace(one.metadata, uid="uid-next", resource_version=str(version)))


@virtual
async def test_what_we_wrote_last_is_what_is_told_last_though_events_come_later() -> None:
    tickets, told = ReservationQueueEntries(Snapshot(), PodGroupCache(), SchedulingQueue(), frozenset({"restow"})), []
    tickets.on_change = lambda reservation, gone: told.append((reservation.metadata.resource_version, gone))
    held, over = booking("r", at={0: "n1"}, version=8), booking("r", phase="Succeeded", version=9)
    for one in (held, over, held, over):
        tickets.show(one)
    tickets.hide(held)
    tickets.show(over)
    assert told == [("8", False), ("9", False), ("8", True)]


@virtual
async def test_news_of_an_earlier_one_of_that_name_is_none_of_this_one() -> None:
    snapshot, queue = Snapshot(), SchedulingQueue()
    tickets, told = ReservationQueueEntries(snapshot, PodGroupCache(), queue, frozenset({"restow"})), []
    before = booking("r", version=1)
    now = renewed(before, 5)
    tickets.show(now)
    snapshot.assume_placements(now, placements_of({0: "n1"}), at=1.0)
    tickets.on_change = lambda reservation, gone: told.append((reservation.metadata.uid, gone))
    tickets.show(replace(before, metadata=replace(before.metadata, resource_version="2")))
    tickets.hide(replace(before, metadata=replace(before.metadata, resource_version="3")))
    assert (told, len(snapshot.reservations.seats("default", "r"))) == ([], 1)
    assert tickets.is_ticket(Pod(metadata=ObjectMeta(uid="uid-next")))


@virtual
async def test_what_asks_for_something_that_cannot_be_is_not_even_tried() -> None:
    queue = SchedulingQueue()
    tickets = ReservationQueueEntries(Snapshot(), PodGroupCache(), queue, frozenset({"restow"}))
    tickets.is_valid = lambda reservation: False
    tickets.show(booking("r"))
    assert queue.pods(Where.ACTIVE) == []
