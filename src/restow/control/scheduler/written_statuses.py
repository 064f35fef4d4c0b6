"""Written statuses: which versions of reservations are our own writes, and what they announce.

Goes in: reservations before a write, and as they appear afterwards, in the response or by the watch. Comes out: whether
a version is our own, so that the controller does not look at it again; and one Event per write that changed the phase
or its reason.
"""

from __future__ import annotations

import logging

from restow.client.event_recorder import EventRecorder, about
from restow.model.kinds import RESERVATION
from restow.model.object_key import Key, key_of
from restow.model.objects import Reservation, ReservationPhase

log = logging.getLogger(__name__)

_WARNINGS = (ReservationPhase.PENDING, ReservationPhase.FAILED)


class WrittenStatuses:
    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._own_versions: dict[Key, str] = {}
        self._unannounced: dict[Key, Reservation] = {}
        """Reservations as they were before a write, until its result is seen."""

    def write_begins(self, reservation: Reservation) -> None:
        self._unannounced[key_of(reservation)] = reservation

    def write_refused(self, reservation: Reservation) -> None:
        """The server has refused the write for good: there is nothing to announce."""
        self._unannounced.pop(key_of(reservation), None)

    def write_succeeded(self, written: Reservation) -> None:
        self._own_versions[key_of(written)] = written.metadata.resource_version

    def observe(self, reservation: Reservation, *, gone: bool) -> bool:
        """A reservation as it is, or that it is gone; returns whether this is the result of our own write.

        The watch may show it before the response arrives, or instead of it: whichever comes first is announced.
        """
        key = key_of(reservation)
        if gone:
            self._unannounced.pop(key, None)
        else:
            self.announce(reservation)
        if not gone and self._own_versions.get(key) == reservation.metadata.resource_version:
            return True
        self._own_versions.pop(key, None)
        return False

    def announce(self, reservation: Reservation) -> None:
        """Record an Event, once after a write, if the phase or its reason is new; while Pending, also if the message
        is, because it counts the nodes that refuse the seats."""
        before = self._unannounced.get(key_of(reservation))
        if before is None or before.metadata.resource_version == reservation.metadata.resource_version:
            return
        del self._unannounced[key_of(reservation)]
        if before.metadata.uid != reservation.metadata.uid:
            return
        old, new = before.status.state, reservation.status.state
        is_new_message = new.phase == ReservationPhase.PENDING and old.message != new.message
        if (old.phase, old.reason) == (new.phase, new.reason) and not is_new_message:
            return
        log.info("reservation", extra={"reservation": reservation.metadata.name, "phase": new.phase})
        self._recorder.record(
            about(RESERVATION, reservation.metadata),
            new.reason or new.phase or "",
            new.message or "",
            type="Warning" if new.phase in _WARNINGS else "Normal",
        )
