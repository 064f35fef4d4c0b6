"""Turns: in a cluster one run of the descheduler is under way, or one plan is applied, whichever process does it.

Goes in: work. It is done while this process holds the Lease `restow-cycle`, with an Api whose writes are refused once
that may be over. Whoever dies with it keeps others from their turn until the Lease has not moved for its duration.
The jobs that a turn leaves behind are for everybody to see: they are read afresh when the next one begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Final, TypeVar

import msgspec

from restow.client.leader_election import Fenced, FencedApi, LeaderElection, LeadershipLost, LeaseHeld
from restow.client.verbs import Client
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.settings import DeschedulerSettings
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.objects import PodMigrationJob
from restow.ports import Api, Clock, NotFound, OutcomeUnknown, TooManyRequests

CYCLE_LEASE_NAME: Final = "restow-cycle"
_PAUSE: Final = 1.0
"""Seconds before a question is asked again."""

T = TypeVar("T")


class LeaseHeldElsewhere(Exception):
    """It is somebody else's turn; the message says whose."""


class LeaseLost(Exception):
    """The turn was over before the work was: it has been stopped."""


class CycleLease:
    """`api` is for what is written in a turn."""

    def __init__(
        self, api: Api, clock: Clock, rng: Random, feed: DeschedulerEventHandlers, settings: DeschedulerSettings
    ) -> None:
        self._client = Client(api, manager="restow-descheduler")
        self._feed = feed
        self._lease = f"{settings.namespace}/{CYCLE_LEASE_NAME}"
        self._election = LeaderElection(
            self._client,
            namespace=settings.namespace,
            name=CYCLE_LEASE_NAME,
            identity=f"{settings.identity} ({rng.getrandbits(64):016x})",
            clock=clock,
            rng=Random(rng.getrandbits(64)),
        )
        self.api = FencedApi(api, self._election)

    async def run_while_held(self, work: Callable[[], Awaitable[T]], *, wait: bool = False) -> T:
        """Do this when nobody else has a turn; wait for that, and for an API server that answers, if told to. Raises
        Taken, TurnLost, ApiError and whatever the work does."""
        done: list[T] = []

        async def lead() -> None:
            await self._read_jobs()
            done.append(await work())

        try:
            await (self._election.run if wait else self._election.run_if_free)(lead)
        except LeaseHeld as holder:
            raise LeaseHeldElsewhere(f"a run is under way: {holder} has the Lease {self._lease}") from None
        except (LeadershipLost, Fenced):
            raise LeaseLost(f"the Lease {self._lease} was lost meanwhile; what is created is carried out") from None
        return done[0]

    async def _read_jobs(self) -> None:
        """What the turn before has created, the watch may not have shown yet. Asks as long as the turn lasts. Whatever
        cannot be read no turn has created."""
        while True:
            try:
                for document in (await self._client.list(POD_MIGRATION_JOB.whole)).items:
                    with suppress(msgspec.ValidationError):
                        self._feed.note_written_job(msgspec.convert(document, PodMigrationJob))
                return
            except NotFound:  # where there is no such kind nobody has made one
                return
            except (OutcomeUnknown, TooManyRequests):
                await asyncio.sleep(_PAUSE)
