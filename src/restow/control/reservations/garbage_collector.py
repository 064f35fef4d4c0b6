"""The collector: reservations that ended long enough ago are deleted, and all of ours are counted.

Goes in: reservations as the API shows them, and time. Comes out: deletions, each of the very object that was looked at,
as it was, and figures: how many there are by phase, and how many seats they have. Nothing else is written here: when
and how a reservation ends is the scheduler's to say. Those of other schedulers are theirs to delete and to count.
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

_SEATS: dict[str, Callable[[ReservationStatus], int | None]] = {
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
        names: frozenset[str],
        arguments: ReservationSettings,
        informers: SharedInformers | None = None,
        metrics: ReservationMetrics | None = None,
    ) -> None:
        self._client = client = Client(api, manager="restow-reservations")
        self._clock = clock
        self._names = names
        self._arguments = arguments
        self._reader = Subscriptions(informers or SharedInformers(client, rng))
        self._reservations = self._reader.subscribe(RESERVATION)
        self._ready = asyncio.Event()
        self._metrics = metrics or ReservationMetrics()
        for phase in ReservationPhase:
            self._metrics.reservations(phase, partial(self._count, phase))
        for state, count in _SEATS.items():
            self._metrics.seats(state, partial(self._sum, count))

    def _count(self, phase: ReservationPhase) -> float:
        return sum((one.status.state.phase or ReservationPhase.PENDING) == phase for one in self._ours())

    def _sum(self, count: Callable[[ReservationStatus], int | None]) -> float:
        return sum(count(one.status) or 0 for one in self._ours() if not is_ended(one))

    def _ours(self) -> Iterator[Reservation]:
        return (one for one in self._reservations if is_for_scheduler(one, self._names))

    async def run(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reader.run(), name="reservations reader")
            await self._reader.synced()
            self._ready.set()
            while True:
                await self._collect()
                await asyncio.sleep(self._arguments.gc_period)

    async def ready(self) -> None:
        """Wait until it knows the cluster and has begun."""
        await self._ready.wait()

    async def _collect(self) -> None:
        now = self._clock.now()
        over = [one for one in self._ours() if self._is_over(one, now)]
        for one in sorted(over, key=key_of):
            await self._delete(one)

    def _is_over(self, one: Reservation, now: float) -> bool:
        since = time_of(one.status.state.last_transition_time) or time_of(one.metadata.creation_timestamp)
        over = is_ended(one) and not is_being_deleted(one)
        return over and since is not None and now - since >= self._arguments.gc_duration

    async def _delete(self, one: Reservation) -> None:
        meta = one.metadata
        try:
            await self._client.delete(
                RESERVATION, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
            self._metrics.collected()
            log.info("reservation collected", extra={"namespace": meta.namespace, "reservation": meta.name})
        except (NotFound, Conflict):  # somebody was quicker, or it is looked at again
            return
        except ApiError as error:
            log.warning("reservation not collected", extra={"reservation": meta.name, "err": str(error)})
