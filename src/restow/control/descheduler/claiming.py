"""Claiming: the reservations by which the pods that a plan makes room for get that room.

Goes in: a plan as it stands, before each of its waves. What comes out are reservations (`planning.claims`), created
when they are due, kept alive while somebody carries the plan out, and deleted when it stops. Whoever dies on the way
leaves them to their time to live; whoever continues the plan finds them by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

import msgspec
from msgspec.structs import replace

from restow.client.verbs import Client
from restow.control.descheduler.creating import create_once
from restow.control.descheduler.feed import Feed
from restow.control.descheduler.settings import Settings
from restow.model.cluster.seat import expires_at, is_ended
from restow.model.kinds import RESERVATION
from restow.model.objects import Pod, Reservation
from restow.model.times import format_duration, parse_time
from restow.planning.claims import CLAIM_LABEL, Claim, claims, reservation_for
from restow.planning.plan import Move, Place
from restow.ports import Clock, Conflict, NotFound


class Claiming:
    """The claims of one plan."""

    def __init__(self, client: Client, clock: Clock, feed: Feed, settings: Settings, plan: str) -> None:
        self._client = client
        self._clock = clock
        self._feed = feed
        self._settings = settings
        self._plan = plan
        self._made: dict[tuple[str, str], Reservation] = {}
        """As we wrote them: the watch may show them later."""

    def wanted(self, places: Iterable[Place], pending: Iterable[Pod]) -> list[Claim]:
        waiting = {(pod.metadata.namespace or "default", pod.metadata.name): pod for pod in pending}
        return claims(self._plan, places, waiting, self._feed.snapshot.kinship)

    def live(self) -> list[Reservation]:
        """Those that are there and have not ended."""
        book = self._feed.snapshot.reservations
        seen = {key: one for key in book.names() if (one := book.get(*key)) is not None and self._is_own(one)}
        for key, made in list(self._made.items()):
            if key in seen and seen[key].metadata.uid == made.metadata.uid:
                del self._made[key]
        return [one for one in (self._made | seen).values() if not is_ended(one)]

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

    async def claim(self, wanted: Iterable[Claim], moves: Iterable[Move]) -> None:
        """Create the claims that are due while these moves are left. Raises ApiError."""
        left = list(moves)
        live = {(one.metadata.namespace or "", one.metadata.name) for one in self.live()}
        for claim in wanted:
            if (claim.namespace, claim.name) not in live and claim.is_due(left):
                await self._create(claim, left)

    async def keep(self) -> None:
        """See to it that no claim ends while the plan is under way. Raises ApiError."""
        now = self._clock.now()
        for one in self.live():
            end = expires_at(one)
            if end is not None and end - now < self._settings.claim_seconds / 2:
                await self._extend(one, now + self._settings.claim_seconds)

    async def release(self, which: Callable[[Reservation], bool] = lambda claim: True) -> None:
        """Let go of what is claimed. Raises ApiError."""
        for one in self.live():
            if which(one):
                await self._delete(one)

    # ------------------------------------------------------------------------------------------------------------------

    def _is_own(self, reservation: Reservation) -> bool:
        return (reservation.metadata.labels or {}).get(CLAIM_LABEL) == self._plan

    async def _create(self, claim: Claim, moves: list[Move]) -> None:
        built = reservation_for(claim, self._plan, moves, seconds=self._settings.claim_seconds)
        document = msgspec.to_builtins(built)
        made = await create_once(self._client, RESERVATION, document, self._settings)
        if is_ended(made):  # of an earlier attempt
            await self._delete(made)
            made = await create_once(self._client, RESERVATION, document, self._settings)
        self._made[made.metadata.namespace or "", made.metadata.name] = made

    async def _extend(self, one: Reservation, until: float) -> None:
        meta = one.metadata
        began = parse_time(meta.creation_timestamp) if meta.creation_timestamp else until
        changes = {"spec": {"ttl": format_duration(max(until - began, 1.0))}}
        try:
            made = await self._client.patch(
                RESERVATION, meta.name, changes, meta.namespace, resource_version=meta.resource_version
            )
        except (Conflict, NotFound):
            return  # the next look sees what became of it
        self._made[made.metadata.namespace or "", made.metadata.name] = made

    async def _delete(self, one: Reservation) -> None:
        meta = one.metadata
        with suppress(Conflict, NotFound):
            await self._client.delete(RESERVATION, meta.name, meta.namespace, uid=meta.uid)
        self._made.pop((meta.namespace or "", meta.name), None)
