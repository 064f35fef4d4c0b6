"""Leader election: one leader at a time, a successor in time, and no write of a leader that may have lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from restow.adapters.memory.server import MemoryApi
from restow.client.fenced_api import Fenced, FencedApi
from restow.client.leader_election import LeaderElection, LeadershipLost, LeaseHeld, LeaseTiming
from restow.client.verbs import Client
from restow.model.kinds import CONFIG_MAP, LEASE
from restow.ports import Api, OutcomeUnknown, Request, Response
from restow.sim.faults import FaultPlan, FaultyApi
from restow.sim.loop import VirtualClock
from tests.client.virtual_server import run_with_server


class UnreliableApi:
    """An Api whose `mode` makes every call fail or hang."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.mode = "fine"

    async def call(self, request: Request) -> Response:
        if self.mode == "hangs":
            await asyncio.sleep(10_000)
        if self.mode == "fails":
            raise OutcomeUnknown.because(503, "ServiceUnavailable", "cut")
        return await self.api.call(request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self.api.watch(request)


class Candidate:
    """A process that leads when it can, and records from when to when."""

    def __init__(
        self, api: Api, clock: VirtualClock, name: str, seed: int = 0, timing: LeaseTiming | None = None
    ) -> None:
        self.api = UnreliableApi(api)
        self.election = LeaderElection(
            Client(self.api),
            namespace="shop",
            name="restow",
            identity=name,
            clock=clock,
            rng=Random(f"{seed}{name}"),
            timing=timing,
        )
        self.fenced = FencedApi(self.api, self.election)
        self.spans: list[list[float]] = []
        self.task = asyncio.create_task(self.run())

    async def lead(self) -> None:
        loop = asyncio.get_running_loop()
        self.spans.append([loop.time(), float("inf")])
        try:
            await asyncio.Event().wait()
        finally:
            self.spans[-1][1] = loop.time()

    async def run(self) -> None:
        while True:
            try:
                await self.election.run(self.lead)
            except LeadershipLost:
                await asyncio.sleep(1)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def lease(api: Api) -> dict[str, Any]:
    spec: dict[str, Any] = (await Client(api).get_document(LEASE, "restow", "shop"))["spec"]
    return spec


def test_first_candidate_leads_and_the_others_wait() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        a = Candidate(api, clock, "a")
        await asyncio.sleep(1)
        b = Candidate(api, clock, "b")
        await asyncio.sleep(60)
        assert (a.election.is_leader, b.election.is_leader, b.election.holder) == (True, False, "a")
        spec = await lease(api)
        assert (spec["leaseDurationSeconds"], spec["leaseTransitions"], spec["holderIdentity"]) == (15, 0, "a")
        assert spec["renewTime"] > spec["acquireTime"]
        await a.stop()
        await b.stop()

    run_with_server(story)


def test_stopped_leader_releases_the_lease() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        a = Candidate(api, clock, "a")
        await asyncio.sleep(1)
        b = Candidate(api, clock, "b")
        await asyncio.sleep(10)
        await a.stop()
        assert "holderIdentity" not in await lease(api)
        await asyncio.sleep(2.5)
        assert (b.election.is_leader, (await lease(api))["leaseTransitions"]) == (True, 1)
        await b.stop()

    run_with_server(story)


@pytest.mark.parametrize("mode", ["fails", "hangs"])
def test_disconnected_leader_stops_before_another_starts(mode: str) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        a = Candidate(api, clock, "a")
        await asyncio.sleep(1)
        b = Candidate(api, clock, "b")
        await asyncio.sleep(20)
        a.api.mode = mode
        await asyncio.sleep(40)
        assert (a.election.is_leader, b.election.is_leader) == (False, True)
        (_, lost), (won, _) = a.spans[0], b.spans[0]
        assert lost + 2 < won < lost + 10
        a.api.mode = "fine"
        await asyncio.sleep(20)
        assert a.election.holder == "b"
        await a.stop()
        await b.stop()

    run_with_server(story)


def test_leader_stops_when_the_lease_has_another_holder() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        a = Candidate(api, clock, "a")
        await asyncio.sleep(5)
        patch = {"spec": {"holderIdentity": "thief"}}
        await Client(api).patch(LEASE, "restow", patch, "shop")
        await asyncio.sleep(2.5)
        assert (a.election.is_leader, a.election.holder) == (False, "thief")
        await a.stop()

    run_with_server(story)


def test_lease_is_released_when_the_work_ends() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        election = LeaderElection(
            Client(api), namespace="shop", name="restow", identity="a", clock=clock, rng=Random(1)
        )

        async def work() -> None:
            assert election.is_leader

        await election.run(work)
        assert not election.is_leader
        assert "holderIdentity" not in await lease(api)

    run_with_server(story)


class SlowRenewal:
    """An Api that writes the first renewal of a Lease and does not answer."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.watch = api.watch
        self.written = asyncio.Event()

    async def call(self, request: Request) -> Response:
        answer = await self.api.call(request)
        if request.verb == "replace" and not self.written.is_set():
            self.written.set()
            await asyncio.sleep(10_000)
        return answer


def test_lease_is_released_when_stopped_during_a_renewal() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        slow = SlowRenewal(api)
        election = LeaderElection(
            Client(slow), namespace="shop", name="restow", identity="a", clock=clock, rng=Random(1)
        )
        leading = asyncio.create_task(election.run(asyncio.Event().wait))
        async with asyncio.timeout(60):
            await slow.written.wait()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        assert "holderIdentity" not in await lease(api)

    run_with_server(story)


def test_error_of_the_work_is_raised() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        election = LeaderElection(
            Client(api), namespace="shop", name="restow", identity="a", clock=clock, rng=Random(1)
        )

        async def work() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await election.run(work)
        assert "holderIdentity" not in await lease(api)

    run_with_server(story)


@pytest.mark.parametrize("seed", range(10))
def test_never_two_leaders_under_network_faults(seed: int) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> list[list[float]]:
        rng = Random(seed)
        plan = FaultPlan(conflict=0.1, busy=0.1, refused=0.1, unknown=0.1)
        candidates = [Candidate(FaultyApi(api, Random(seed * 10 + i), plan), clock, f"c{i}", seed) for i in range(3)]
        for _ in range(60):
            await asyncio.sleep(rng.uniform(0, 30))
            rng.choice(candidates).api.mode = rng.choice(("fine", "fine", "fails", "hangs"))
        for candidate in candidates:
            await candidate.stop()
        return sorted(span for candidate in candidates for span in candidate.spans)

    spans = run_with_server(story)
    assert len(spans) > 3
    for (_, end), (start, _) in pairwise(spans):
        assert end <= start


def test_fence_closes_before_leadership_ends() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        loop = asyncio.get_running_loop()
        a = Candidate(api, clock, "a")
        client = Client(a.fenced)
        with pytest.raises(Fenced, match="create configmaps not sent: a may not lead"):
            await client.create(CONFIG_MAP, {"metadata": {"name": "x", "namespace": "shop"}})
        await asyncio.sleep(1)
        await client.create(CONFIG_MAP, {"metadata": {"name": "x", "namespace": "shop"}})
        cut = UnreliableApi(api)
        cut.mode = "fails"
        a.election._lock._client = Client(cut)
        written = loop.time()
        with pytest.raises(Fenced):
            while True:
                await client.patch(CONFIG_MAP, "x", {"data": {"at": str(loop.time())}}, "shop")
                written = loop.time()
                await asyncio.sleep(0.1)
        assert a.election.is_leader
        assert written <= a.election.deadline() - 5
        assert (await client.get(CONFIG_MAP, "x", "shop")).metadata.name == "x"
        await a.stop()

    run_with_server(story)


def test_slow_fenced_write_ends_before_the_deadline() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        a = Candidate(api, clock, "a")
        await asyncio.sleep(1)
        a.api.mode = "hangs"
        with pytest.raises(OutcomeUnknown, match="no answer within 5s"):
            await Client(a.fenced).create(CONFIG_MAP, {"metadata": {"name": "x", "namespace": "shop"}})
        assert asyncio.get_running_loop().time() < a.election.deadline()
        await a.stop()

    run_with_server(story)


@pytest.mark.parametrize(
    "timing",
    [
        pytest.param({"lease_duration": 10}, id="the lease must outlast the deadline"),
        pytest.param({"renew_deadline": 2.1}, id="the deadline must leave room for a retry"),
        pytest.param({"request_timeout": 10}, id="a request must end before the deadline"),
        pytest.param({"retry_period": 0}, id="retries need a pause"),
    ],
)
def test_unsafe_timing_is_refused(timing: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="does not hold"):
        LeaseTiming(**timing)


def candidate(api: Api, clock: VirtualClock, name: str = "c") -> LeaderElection:
    return LeaderElection(Client(api), namespace="shop", name="restow", identity=name, clock=clock, rng=Random(1))


async def nothing() -> None: ...


def test_run_if_free_leads_at_once_without_a_holder() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        await candidate(api, clock).run_if_free(nothing)
        await candidate(api, clock, "d").run_if_free(nothing)
        assert asyncio.get_running_loop().time() < 1
        assert "holderIdentity" not in await lease(api)

    run_with_server(story)


def test_run_if_free_raises_the_holder() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        a = Candidate(api, clock, "a")
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        with pytest.raises(LeaseHeld, match=r"^a$"):
            await candidate(api, clock).run_if_free(nothing)
        assert asyncio.get_running_loop().time() < began + 5
        assert a.election.is_leader
        await a.stop()

    run_with_server(story)


def test_run_if_free_takes_an_abandoned_lease_after_its_duration() -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        a = Candidate(api, clock, "a")
        await asyncio.sleep(1)
        a.api.mode = "fails"
        began = asyncio.get_running_loop().time()
        await candidate(api, clock).run_if_free(nothing)
        assert began + 15 <= asyncio.get_running_loop().time() < began + 18
        await a.stop()

    run_with_server(story)


@pytest.mark.parametrize("mode", ["fails", "hangs"])
def test_run_if_free_gives_up_without_a_server(mode: str) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        cut = UnreliableApi(api)
        cut.mode = mode
        with pytest.raises(OutcomeUnknown):
            await candidate(cut, clock).run_if_free(nothing)
        assert asyncio.get_running_loop().time() < 60

    run_with_server(story)
