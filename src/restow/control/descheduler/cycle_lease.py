"""The Lease `restow-cycle`: in a cluster, one process at a time plans and creates jobs.

Goes in: work. It runs while this process holds the Lease, with an Api (`api`) that refuses writes as soon as the Lease
may have been lost. A process that dies keeps the others waiting until the Lease has not been renewed for its duration.

A holder leaves jobs behind for the next one. That one lists them before it begins, because its watch may be behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Final, TypeVar

import msgspec

from restow.client.fenced_api import Fenced, FencedApi
from restow.client.leader_election import LeaderElection, LeadershipLost, LeaseHeld
from restow.client.verbs import Client
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.control.descheduler.settings import DeschedulerSettings
from restow.model.kinds import POD_MIGRATION_JOB
from restow.model.objects import PodMigrationJob
from restow.ports import Api, Clock, NotFound, OutcomeUnknown, TooManyRequests

CYCLE_LEASE_NAME: Final = "restow-cycle"
_LIST_RETRY_SECONDS: Final = 1.0

T = TypeVar("T")


class LeaseHeldElsewhere(Exception):
    """Another process holds the Lease; the message names its holder."""


class LeaseLost(Exception):
    """The Lease was lost before the work was done. The work has been stopped."""


class CycleLease:
    """`api` is the Api for all writes that need the Lease."""

    def __init__(
        self, api: Api, clock: Clock, rng: Random, handlers: DeschedulerEventHandlers, settings: DeschedulerSettings
    ) -> None:
        self._client = Client(api, manager="restow-descheduler")
        self._handlers = handlers
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
        """Acquire the Lease, run the work, release the Lease. With `wait`, wait for other holders and for an API server
        that answers. Raises LeaseHeldElsewhere, LeaseLost, ApiError and what the work raises."""
        results: list[T] = []

        async def lead() -> None:
            await self._list_jobs()
            results.append(await work())

        try:
            await (self._election.run if wait else self._election.run_if_free)(lead)
        except LeaseHeld as holder:
            raise LeaseHeldElsewhere(f"a run is under way: {holder} has the Lease {self._lease}") from None
        except (LeadershipLost, Fenced):
            raise LeaseLost(f"the Lease {self._lease} was lost; jobs that were created before go on") from None
        return results[0]

    async def _list_jobs(self) -> None:
        """Read the jobs that the previous holder has created. Retries for as long as the Lease is held."""
        while True:
            try:
                for document in (await self._client.list(POD_MIGRATION_JOB.whole)).items:
                    with suppress(msgspec.ValidationError):  # no descheduler has written such a job
                        self._handlers.note_written_job(msgspec.convert(document, PodMigrationJob))
                return
            except NotFound:  # the kind is not installed, so there are no jobs
                return
            except (OutcomeUnknown, TooManyRequests):
                await asyncio.sleep(_LIST_RETRY_SECONDS)
