"""Leader election of two contenders on a real Lease."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from e2e.cluster import eventually
from restow.adapters.clock import SystemClock
from restow.client.leader_election import LeaderElection, LeadershipLost, LeaseTiming
from restow.client.verbs import Client
from restow.model.kinds import LEASE
from restow.ports import Api, OutcomeUnknown, Request, Response

TIMING = LeaseTiming(lease_duration=3.0, renew_deadline=2.0, retry_period=0.4, request_timeout=1.0)


class CuttableApi:
    """An Api that can be unplugged."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.plugged = True

    async def call(self, request: Request) -> Response:
        if not self.plugged:
            raise OutcomeUnknown.because(503, "ServiceUnavailable", "the cable is out")
        return await self._api.call(request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


class Contender:
    """Leads for as long as it is left alone."""

    def __init__(self, api: Api, namespace: str, identity: str) -> None:
        self.cable = CuttableApi(api)
        self.leads = False
        self.election = LeaderElection(
            Client(self.cable),
            namespace=namespace,
            name="lock",
            identity=identity,
            clock=SystemClock(),
            rng=random.Random(identity),
            timing=TIMING,
        )
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self) -> None:
        self.leads = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leads = False

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError, LeadershipLost):
            await self.task


@pytest.fixture
async def contenders(client: Client, namespace: str) -> AsyncIterator[tuple[Contender, Contender]]:
    """Two contenders, the first of which leads."""
    first = Contender(client.api, namespace, "first")
    await eventually(lambda: first.leads, "the first leads")
    second = Contender(client.api, namespace, "second")
    yield first, second
    for contender in (first, second):
        await contender.stop()


async def test_one_process_leads_and_the_other_waits(contenders: tuple[Contender, Contender]) -> None:
    first, second = contenders
    await asyncio.sleep(TIMING.lease_duration + 1)
    assert first.leads
    assert not second.leads
    assert second.election.holder == "first"


async def test_leader_that_resigns_is_succeeded_at_once(
    contenders: tuple[Contender, Contender], client: Client, namespace: str
) -> None:
    first, second = contenders
    await first.stop()
    await eventually(lambda: second.leads, "the second leads", TIMING.lease_duration - 0.5)
    lease = await client.get_document(LEASE, "lock", namespace)
    assert lease["spec"]["holderIdentity"] == "second"


async def test_leader_without_connection_steps_down_before_another_leads(
    contenders: tuple[Contender, Contender],
) -> None:
    first, second = contenders
    first.cable.plugged = False
    while not second.leads:
        assert not (first.leads and second.leads)
        await asyncio.sleep(0.01)
    assert not first.leads
    with pytest.raises(LeadershipLost):
        await first.task
