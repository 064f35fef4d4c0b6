"""Statuses: what reservations are to say, written down and told.

Goes in: a reservation and the status it is to have. Comes out: a patch, guarded by the version that it was worked out
from, and an Event; and in the snapshot, the reservation as it is afterwards.
"""

from __future__ import annotations

import logging

import msgspec

from restow.client.events import EventRecorder, about
from restow.client.verbs import Client
from restow.control.scheduler.event_handlers import EventHandlers
from restow.model.cluster.names import Key, key_of
from restow.model.kinds import RESERVATION
from restow.model.objects import Reservation, ReservationPhase, ReservationStatus
from restow.ports import JSON_PATCH, ApiError, Forbidden, Invalid, NotFound

log = logging.getLogger(__name__)

_WARNINGS = (ReservationPhase.PENDING, ReservationPhase.FAILED)


class ReservationStatusWriter:
    def __init__(self, client: Client, recorder: EventRecorder, feed: EventHandlers) -> None:
        self._client = client
        self._recorder = recorder
        self._feed = feed
        self._tickets = feed.tickets
        self._written: dict[Key, str] = {}
        """The versions that we wrote ourselves."""
        self._untold: dict[Key, Reservation] = {}
        """As they were before a write of which nobody has heard yet what came of it."""

    def heard(self, reservation: Reservation, *, gone: bool) -> bool:
        """What a reservation is, or that it is gone; returns whether anybody else made it so. If it says what we wrote,
        that is told, though the answer to us may be lost."""
        key = key_of(reservation)
        if gone:
            self._untold.pop(key, None)
        else:
            self._tell(reservation)
        if not gone and self._written.get(key) == reservation.metadata.resource_version:
            return False
        self._written.pop(key, None)
        return True

    async def write(self, reservation: Reservation, status: ReservationStatus) -> bool:
        """Whether it is written; if not, there is no such reservation. Raises Invalid and Forbidden where nothing that
        comes of itself will change that, and ApiError where it is to be tried again."""
        key, meta = key_of(reservation), reservation.metadata
        self._untold[key] = reservation
        try:
            written = await self._client.patch(
                RESERVATION,
                meta.name,
                [{"op": "add", "path": "/status", "value": msgspec.to_builtins(status)}],
                meta.namespace,
                type=JSON_PATCH,
                subresource="status",
                resource_version=meta.resource_version,
            )
        except NotFound:
            self._tickets.hide(reservation)
            self._feed.changed.set()
            return False
        except (Invalid, Forbidden):
            self._untold.pop(key, None)
            raise
        except ApiError:  # it may have moved on, or be written although it seemed to fail: read it, and look again
            await self._read_again(reservation)
            self._feed.changed.set()
            raise
        self._written[key] = written.metadata.resource_version
        self._tickets.show(written)
        self._feed.changed.set()
        self._tell(written)
        return True

    async def _read_again(self, reservation: Reservation) -> None:
        meta = reservation.metadata
        try:
            now = await self._client.get(RESERVATION, meta.name, meta.namespace)
        except NotFound:
            self._tickets.hide(reservation)
            return
        self._tickets.show(now)
        self._tell(now)
        if now.metadata.generation != meta.generation:  # what was decided was decided for another spec
            self._tickets.give_back(now)
            self._feed.look_for_seats(key_of(now))

    def _tell(self, reservation: Reservation) -> None:
        """Once after a write, an Event where the phase or its reason is new; of one that waits for room also where the
        message is."""
        before = self._untold.get(key_of(reservation))
        if before is None or before.metadata.resource_version == reservation.metadata.resource_version:
            return
        del self._untold[key_of(reservation)]
        if before.metadata.uid != reservation.metadata.uid:
            return
        old, new = before.status.state, reservation.status.state
        if (old.phase, old.reason) == (new.phase, new.reason) and not (
            new.phase == ReservationPhase.PENDING and old.message != new.message
        ):
            return
        log.info("reservation", extra={"reservation": reservation.metadata.name, "phase": new.phase})
        self._recorder.record(
            about(RESERVATION, reservation.metadata),
            new.reason or new.phase or "",
            new.message or "",
            type="Warning" if new.phase in _WARNINGS else "Normal",
        )
