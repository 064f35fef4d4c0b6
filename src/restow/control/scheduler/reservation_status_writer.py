"""The status writer of reservations.

Goes in: a reservation and the status that it is to have. Comes out: a patch of reservations/status, guarded by the
resourceVersion that the status was computed from; and the reservation as it is afterwards, in the snapshot.
"""

from __future__ import annotations

import msgspec

from restow.client.verbs import Client
from restow.control.scheduler.change_signal import ChangeSignal
from restow.control.scheduler.reservation_queue_entries import ReservationQueueEntries
from restow.control.scheduler.reservation_updates import ReservationUpdates
from restow.control.scheduler.written_statuses import WrittenStatuses
from restow.model.kinds import RESERVATION
from restow.model.object_key import key_of
from restow.model.objects import Reservation, ReservationStatus
from restow.ports import JSON_PATCH, ApiError, Forbidden, Invalid, NotFound


class ReservationStatusWriter:
    def __init__(
        self,
        client: Client,
        updates: ReservationUpdates,
        entries: ReservationQueueEntries,
        written: WrittenStatuses,
        signal: ChangeSignal,
    ) -> None:
        self._client = client
        self._updates = updates
        self._entries = entries
        self._written = written
        self._signal = signal

    async def write(self, reservation: Reservation, status: ReservationStatus) -> bool:
        """Write the status. Returns False if the reservation is gone. Raises Invalid or Forbidden if the server will
        never accept it, and another ApiError if it is to be computed and written again."""
        meta = reservation.metadata
        self._written.write_begins(reservation)
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
            self._updates.remove_reservation(reservation)
            self._signal.wake_scheduling_loop()
            return False
        except (Invalid, Forbidden):
            self._written.write_refused(reservation)
            raise
        except ApiError:
            # A conflict, or an unknown outcome: the reservation may have changed, or our write may have succeeded
            # although its response is lost. Only a read tells.
            await self._read_again(reservation)
            self._signal.wake_scheduling_loop()
            raise
        # The version is noted first: `upsert_reservation` must know that this change is our own.
        self._written.write_succeeded(written)
        self._updates.upsert_reservation(written)
        self._signal.wake_scheduling_loop()
        self._written.announce(written)
        return True

    async def _read_again(self, reservation: Reservation) -> None:
        meta = reservation.metadata
        try:
            latest = await self._client.get(RESERVATION, meta.name, meta.namespace)
        except NotFound:
            self._updates.remove_reservation(reservation)
            return
        self._updates.upsert_reservation(latest)
        self._written.announce(latest)
        if latest.metadata.generation != meta.generation:
            # The spec was edited: seats that were found for the old one do not count for the new one.
            self._updates.forget_assumed_seats(latest)
            self._entries.retry(key_of(latest))
