"""Claiming: the reservations by which the pods that a plan makes room for get that room.

Goes in: a plan as it stands, before each of its waves. What comes out are reservations (`planning.claims`), created
when they are due, kept alive while somebody carries the plan out, and deleted when it stops. Whoever dies on the way
leaves them to their time to live; whoever continues the plan finds them by their names.
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
from restow.model.object_key import key_of
from restow.model.objects import Pod, Reservation, ReservationPhase
from restow.model.pods import full_name
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


class PlaceReservations:
    """The claims of one plan."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        feed: DeschedulerEventHandlers,
        settings: DeschedulerSettings,
        plan: str,
        notes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """With these annotations on every claim."""
        self._client = client
        self._clock = clock
        self._feed = feed
        self._settings = settings
        self._plan = plan
        self._notes = notes
        self._made: dict[tuple[str, str], Reservation] = {}
        """As we wrote them: the watch may show them later."""

    def wanted(self, places: Iterable[Place], pending: Iterable[Pod]) -> list[PlaceReservation]:
        waiting = {full_name(pod): pod for pod in pending}
        return place_reservations_of(self._plan, places, waiting, self._feed.snapshot.owner_chains)

    def live(self) -> list[Reservation]:
        """Those that are there and have not ended."""
        seen = {
            key_of(one): one
            for one in place_reservations_in(self._feed.snapshot)
            if plan_of_reservation(one) == self._plan
        }
        for key, made in list(self._made.items()):
            if key in seen and seen[key].metadata.uid == made.metadata.uid:
                del self._made[key]
        return [one for one in (seen | self._made).values() if not is_ended(one)]

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """The snapshot without what the claims hold, for those who ask whether the plan is still valid."""
        snapshot = self._feed.snapshot
        mark = snapshot.mark()
        try:
            for one in self.live():
                snapshot.remove_reservation(replace(one, metadata=replace(one.metadata, resource_version="")))
            yield
        finally:
            snapshot.undo_to(mark)

    async def claim(self, wanted: Sequence[PlaceReservation], moves: Iterable[Move]) -> None:
        """Have the claims that are due while these moves are left, and no others. Where none is left, what is held
        stays where it is: a repair may have found another place than the plan. Raises ApiError."""
        left, due = list(moves), {(claim.namespace, claim.name): claim for claim in wanted}
        for one in self.live():
            claim = due.get(key_of(one))
            if claim is None or not (claim.is_satisfied_by(one) if left else claim.has_owner_of(one)):
                await self._delete(one)
        live = set(map(key_of, self.live()))
        for claim in wanted:
            if (claim.namespace, claim.name) not in live and claim.is_due(left):
                await self._create(claim, left)

    async def hand_over(self, wanted: Sequence[PlaceReservation]) -> None:
        """Claim for those who came under the names of those for whom it was claimed. Raises ApiError."""
        live = {key_of(one): one for one in self.live()}
        for claim in wanted:
            one = live.get((claim.namespace, claim.name))
            if one is not None and not claim.has_owner_of(one):
                await self._delete(one)
                await self._create(claim, [])

    async def extend(self) -> None:
        """See to it that no claim ends while the plan is under way."""
        now = self._clock.now()
        for one in self.live():
            end = expires_at(one)
            if end is not None and end - now < self._settings.place_ttl / 2:
                await self._extend(one, now + self._settings.place_ttl)

    async def release(self, which: Callable[[list[Reservation]], list[Reservation]] = list) -> None:
        """Let go of what is claimed, or of some of it. Raises ApiError."""
        for one in which(self.live()):
            await self._delete(one)

    # ------------------------------------------------------------------------------------------------------------------

    async def _create(self, claim: PlaceReservation, moves: list[Move]) -> None:
        built = build_reservation(claim, self._plan, moves, seconds=self._settings.place_ttl, annotations=self._notes)
        document = msgspec.to_builtins(built)
        made = await create_once(self._client, RESERVATION, document)
        if is_ended(made):  # of an earlier attempt
            await self._delete(made)
            made = await create_once(self._client, RESERVATION, document)
        self._made[key_of(made)] = made

    async def _extend(self, one: Reservation, until: float) -> None:
        meta = one.metadata
        changes = {"spec": {"ttl": ttl_until(one, until)}}
        try:
            made = await self._client.patch(
                RESERVATION, meta.name, changes, meta.namespace, resource_version=meta.resource_version
            )
        except ApiError as error:  # the next look sees what became of it, long before the claim ends
            log.info("claim not extended", extra={"reservation": meta.name, "err": str(error)})
            return
        self._made[key_of(made)] = made

    async def _delete(self, one: Reservation) -> None:
        await delete_place_reservation(self._client, self._feed.snapshot, one)
        self._made.pop(key_of(one), None)


def plan_of_reservation(claim: Reservation) -> str | None:
    return (claim.metadata.labels or {}).get(PLACE_RESERVATION_LABEL)


def place_reservations_in(snapshot: Snapshot) -> list[Reservation]:
    """Every claim, of whatever plan."""
    book = snapshot.reservations
    known = (book.get(*key) for key in book.names())
    return [one for one in known if one is not None and plan_of_reservation(one)]


def waiting_reservations(claims: Iterable[Reservation]) -> list[Reservation]:
    """The claims that still need somebody to move."""
    over = (ReservationPhase.AVAILABLE, ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)
    return [one for one in claims if one.status.state.phase not in over]


def abandoned_reservations(
    claims: Iterable[Reservation], pending: Sequence[Pod], kinship: OwnerChains
) -> list[Reservation]:
    """The claims of which nobody who waits may take a seat: their pods are gone, or others came under their names."""
    return [one for one in claims if not is_ended(one) and not any(_is_owner(pod, one, kinship) for pod in pending)]


def _is_owner(pod: Pod, claim: Reservation, kinship: OwnerChains) -> bool:
    inside = pod.metadata.namespace == claim.metadata.namespace
    return inside and Owners.of(claim.spec.owners or ()).matches(pod, kinship)


async def delete_place_reservation(client: Client, snapshot: Snapshot, claim: Reservation) -> None:
    """Delete a claim, and count on its room at once. Raises ApiError."""
    meta = claim.metadata
    with suppress(Conflict, NotFound):
        await client.delete(RESERVATION, meta.name, meta.namespace, uid=meta.uid)
    snapshot.remove_reservation(claim)
