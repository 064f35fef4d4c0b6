"""The reservations that keep the places of a plan for its pending pods while the plan is carried out.

Goes in: a plan as it stands, before each of its waves. Comes out: one Reservation for each pending pod or gang that the
plan makes room for (`planning.place_reservations`): created when due, extended while the plan is carried out, deleted
when the plan stops. If the process dies, they expire. If the plan is continued, they are found again by their names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from restow.client.create_once import create_once
from restow.client.verbs import Client
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.settings import DeschedulerSettings
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.kinds import RESERVATION
from restow.model.object_key import Key, key_of
from restow.model.objects import Pod, Reservation, ReservationPhase
from restow.model.pods import namespaced_name
from restow.model.reservations.observed_spec import is_ended
from restow.model.reservations.owners import Owners
from restow.model.reservations.spec import expires_at, ttl_until
from restow.model.snapshot import Snapshot
from restow.planning.place_reservations import (
    PLACE_RESERVATION_LABEL,
    PlaceReservation,
    build_reservation,
    place_reservations_of,
)
from restow.planning.plan import Move, Place
from restow.ports import ApiError, Clock, Conflict, NotFound

log = logging.getLogger(__name__)


class PlanPlaceReservations:
    """The place reservations of one plan."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        handlers: DeschedulerEventHandlers,
        settings: DeschedulerSettings,
        plan: str,
        annotations: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`plan` is the name of the plan; the annotations go onto every reservation."""
        self._client = client
        self._clock = clock
        self._handlers = handlers
        self._settings = settings
        self._plan = plan
        self._annotations = annotations
        self._written: dict[Key, Reservation] = {}
        """As the API server answered our writes: the watch may show them later."""

    def desired(self, places: Iterable[Place], pending: Iterable[Pod]) -> list[PlaceReservation]:
        """What there should be for these places, as far as their pods are still pending."""
        by_name = {namespaced_name(pod): pod for pod in pending}
        return place_reservations_of(self._plan, places, by_name, self._handlers.snapshot.owner_chains)

    def live_reservations(self) -> list[Reservation]:
        """The reservations of the plan that exist and have not ended."""
        shown = {
            key_of(reservation): reservation
            for reservation in place_reservations_in(self._handlers.snapshot)
            if plan_of_reservation(reservation) == self._plan
        }
        for key, written in list(self._written.items()):
            if key in shown and shown[key].metadata.uid == written.metadata.uid:
                del self._written[key]
        return [reservation for reservation in (shown | self._written).values() if not is_ended(reservation)]

    @contextmanager
    def without_held_seats(self) -> Iterator[None]:
        """The snapshot without the seats that these reservations hold. The plan is checked against that: its own
        reservations must not count as an obstacle to its moves."""
        snapshot = self._handlers.snapshot
        mark = snapshot.mark()
        try:
            for reservation in self.live_reservations():
                # Without a resourceVersion, the removal is not taken for older than what the snapshot has.
                snapshot.remove_reservation(
                    replace(reservation, metadata=replace(reservation.metadata, resource_version=""))
                )
            yield
        finally:
            snapshot.undo_to(mark)

    async def ensure_due(self, desired: Sequence[PlaceReservation], moves: Iterable[Move]) -> None:
        """Have the reservations that are due while these moves are left, and no others. Raises ApiError."""
        left, by_key = list(moves), {(place.namespace, place.name): place for place in desired}
        for reservation in self.live_reservations():
            place = by_key.get(key_of(reservation))
            # While moves are left, the held seats must be exactly the desired ones. After the last move, seats stay
            # where they are even if a repair has found other places since: their room is there.
            if place is None or not (place.is_satisfied_by(reservation) if left else place.has_owner_of(reservation)):
                await self._delete(reservation)
        live = set(map(key_of, self.live_reservations()))
        for place in desired:
            if (place.namespace, place.name) not in live and place.is_due(left):
                await self._create(place, left)

    async def replace_owners(self, desired: Sequence[PlaceReservation]) -> None:
        """Reserve again for pods that were created anew under the names of the pods that the plan was made for.
        Raises ApiError."""
        live = {key_of(reservation): reservation for reservation in self.live_reservations()}
        for place in desired:
            reservation = live.get((place.namespace, place.name))
            if reservation is not None and not place.has_owner_of(reservation):
                await self._delete(reservation)
                await self._create(place, [])

    async def extend_ttl(self) -> None:
        """Let no reservation expire while the plan is carried out."""
        now = self._clock.now()
        for reservation in self.live_reservations():
            end = expires_at(reservation)
            if end is not None and end - now < self._settings.place_ttl / 2:
                await self._extend(reservation, now + self._settings.place_ttl)

    async def release(self, select: Callable[[list[Reservation]], list[Reservation]] = list) -> None:
        """Delete the reservations, or some of them. Raises ApiError."""
        for reservation in select(self.live_reservations()):
            await self._delete(reservation)

    # --- writes -------------------------------------------------------------------------------------------------------

    async def _create(self, place: PlaceReservation, moves: list[Move]) -> None:
        reservation = build_reservation(
            place, self._plan, moves, seconds=self._settings.place_ttl, annotations=self._annotations
        )
        document = msgspec.to_builtins(reservation)
        created = await create_once(self._client, RESERVATION, document)
        if is_ended(created):  # it is there from an earlier attempt to carry out the same plan
            await self._delete(created)
            created = await create_once(self._client, RESERVATION, document)
        self._written[key_of(created)] = created

    async def _extend(self, reservation: Reservation, until: float) -> None:
        meta = reservation.metadata
        changes = {"spec": {"ttl": ttl_until(reservation, until)}}
        try:
            extended = await self._client.patch(
                RESERVATION, meta.name, changes, meta.namespace, resource_version=meta.resource_version
            )
        except ApiError as error:  # the next check tries again, long before the reservation expires
            log.info("place reservation not extended", extra={"reservation": meta.name, "err": str(error)})
            return
        self._written[key_of(extended)] = extended

    async def _delete(self, reservation: Reservation) -> None:
        await delete_place_reservation(self._client, self._handlers.snapshot, reservation)
        self._written.pop(key_of(reservation), None)


def plan_of_reservation(reservation: Reservation) -> str | None:
    """The name of the plan that a reservation holds places for; None for any other reservation."""
    return (reservation.metadata.labels or {}).get(PLACE_RESERVATION_LABEL)


def place_reservations_in(snapshot: Snapshot) -> list[Reservation]:
    """The place reservations of all plans."""
    known = (snapshot.reservations.get(*key) for key in snapshot.reservations.names())
    return [reservation for reservation in known if reservation is not None and plan_of_reservation(reservation)]


def waiting_reservations(reservations: Iterable[Reservation]) -> list[Reservation]:
    """The reservations that still wait for pods to leave their nodes."""
    settled = (ReservationPhase.AVAILABLE, ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)
    return [reservation for reservation in reservations if reservation.status.state.phase not in settled]


def abandoned_reservations(
    reservations: Iterable[Reservation], pending: Sequence[Pod], owner_chains: OwnerChains
) -> list[Reservation]:
    """The reservations that no pending pod owns: their pods are gone, or were created anew under the same names."""
    return [
        reservation
        for reservation in reservations
        if not is_ended(reservation) and not any(_is_owner(pod, reservation, owner_chains) for pod in pending)
    ]


def _is_owner(pod: Pod, reservation: Reservation, owner_chains: OwnerChains) -> bool:
    same_namespace = pod.metadata.namespace == reservation.metadata.namespace
    return same_namespace and Owners.of(reservation.spec.owners or ()).matches(pod, owner_chains)


async def delete_place_reservation(client: Client, snapshot: Snapshot, reservation: Reservation) -> None:
    """Delete a reservation, and count its room as free at once, before the watch shows it. Raises ApiError."""
    meta = reservation.metadata
    with suppress(Conflict, NotFound):  # Conflict: another reservation has that name by now
        await client.delete(RESERVATION, meta.name, meta.namespace, uid=meta.uid)
    snapshot.remove_reservation(reservation)
