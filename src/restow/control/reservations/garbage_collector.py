"""The garbage collector of reservations: deletes reservations that ended long enough ago, and counts all of ours.

Goes in: reservations as the API shows them, and time. Comes out: deletions, each guarded by the UID and resourceVersion
that was looked at; and metrics: how many reservations there are by phase, and how many seats they have. Nothing else is
written here: when and how a reservation ends is decided by the scheduler. Reservations of other schedulers are neither
deleted nor counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from restow.client.shared_informers import SharedInformers
from restow.client.subscriptions import Subscriptions
from restow.client.verbs import Client
from restow.control.reservations.metrics import ReservationMetrics
from restow.model.kinds import RESERVATION
from restow.model.object_key import key_of
from restow.model.objects import Reservation, ReservationPhase, ReservationStatus
from restow.model.reservations.observed_spec import is_being_deleted, is_ended
from restow.model.reservations.settings import ReservationSettings
from restow.model.reservations.spec import is_for_scheduler
from restow.model.times import time_of
from restow.ports import Api, ApiError, Clock, Conflict, NotFound

log = logging.getLogger(__name__)

_SEAT_COUNTS: dict[str, Callable[[ReservationStatus], int | None]] = {
    "pending": lambda status: status.pending,
    "available": lambda status: status.available,
    "taken": lambda status: status.succeeded,
}


class ReservationGarbageCollector:
    """`run()` it until it is cancelled; one at a time per cluster, which leader election sees to."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        scheduler_names: frozenset[str],
        settings: ReservationSettings,
        informers: SharedInformers | None = None,
        metrics: ReservationMetrics | None = None,
    ) -> None:
        self._client = client = Client(api, manager="restow-reservations")
        self._clock = clock
        self._scheduler_names = scheduler_names
        self._settings = settings
        self._subscriptions = Subscriptions(informers or SharedInformers(client, rng))
        self._reservations = self._subscriptions.subscribe(RESERVATION)
        self._ready = asyncio.Event()
        self._metrics = metrics or ReservationMetrics()
        for phase in ReservationPhase:
            self._metrics.set_reservation_count(phase, partial(self._count_reservations, phase))
        for state, count in _SEAT_COUNTS.items():
            self._metrics.set_seat_count(state, partial(self._count_seats, count))

    def _count_reservations(self, phase: ReservationPhase) -> float:
        phases = (reservation.status.state.phase or ReservationPhase.PENDING for reservation in self._ours())
        return sum(each == phase for each in phases)

    def _count_seats(self, count: Callable[[ReservationStatus], int | None]) -> float:
        live = (reservation for reservation in self._ours() if not is_ended(reservation))
        return sum(count(reservation.status) or 0 for reservation in live)

    def _ours(self) -> Iterator[Reservation]:
        """The reservations that this scheduler places."""
        return (each for each in self._reservations if is_for_scheduler(each, self._scheduler_names))

    async def run(self) -> None:
        """Delete what is due, periodically, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._subscriptions.run(), name="reservations watch")
            await self._subscriptions.synced()
            self._ready.set()
            while True:
                await self._delete_due()
                await asyncio.sleep(self._settings.gc_period)

    async def ready(self) -> None:
        """Wait until the collector has seen all reservations and has begun."""
        await self._ready.wait()

    async def _delete_due(self) -> None:
        now = self._clock.now()
        due = [reservation for reservation in self._ours() if self._is_due(reservation, now)]
        for reservation in sorted(due, key=key_of):
            await self._delete(reservation)

    def _is_due(self, reservation: Reservation, now: float) -> bool:
        """Whether a reservation has ended, and long enough ago."""
        if not is_ended(reservation) or is_being_deleted(reservation):
            return False
        ended_at = time_of(reservation.status.state.last_transition_time)
        since = ended_at or time_of(reservation.metadata.creation_timestamp)
        return since is not None and now - since >= self._settings.gc_duration

    async def _delete(self, reservation: Reservation) -> None:
        meta = reservation.metadata
        try:
            await self._client.delete(
                RESERVATION, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
            self._metrics.record_collected()
            log.info("reservation collected", extra={"namespace": meta.namespace, "reservation": meta.name})
        except (NotFound, Conflict):  # deleted by another client, or changed: then the next round looks at it again
            return
        except ApiError as error:
            log.warning("reservation not collected", extra={"reservation": meta.name, "err": str(error)})
