"""Informers under injected faults: in the end the cache and the handlers have what the server has."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restow.adapters.memory import MemoryApi, ServerSettings
from restow.client.cache import Change, by_namespace
from restow.client.informer import Informer
from restow.client.informer_settings import InformerSettings
from restow.client.verbs import Client
from restow.model.kinds import POD
from restow.model.object_key import key_of
from restow.model.objects import Pod
from restow.ports import NotFound
from restow.sim.faults import FaultPlan, FaultyApi
from restow.sim.loop import VirtualClock
from tests.client.virtual_server import run_with_server, shop_pod

PAGES_OF_TWO = InformerSettings(page_size=2)
rates = st.sampled_from((0.0, 0.05, 0.3))
plans = st.builds(
    FaultPlan, dropped=rates, repeated=rates, late=rates, busy=rates, refused=rates, stale_consistent=rates
)


class Mirror:
    """The objects as known from the changes alone."""

    def __init__(self, informer: Informer[Pod]) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        informer.subscribe(self.hear)

    def hear(self, change: Change[Pod]) -> None:
        key = key_of(change.object)
        assert self.pods.get(key) == change.old
        if change.old is not None and change.type == "MODIFIED":
            assert int(change.old.metadata.resource_version) < int(change.object.metadata.resource_version)
        self.pods.pop(key, None)
        if change.type != "DELETED":
            self.pods[key] = change.object


async def disturb(api: MemoryApi, informer: Informer[Pod], rng: Random, steps: int) -> list[asyncio.Event]:
    """Create, change and delete a few pods; sometimes compact the history of the server, or request a refresh. Returns
    the events of the refreshes."""
    client, wanted = Client(api), list[asyncio.Event]()
    for _ in range(steps):
        name = f"p{rng.randrange(6)}"
        await asyncio.sleep(rng.choice((0.0, 0.1, 5.0)))
        try:
            if rng.random() < 0.4:
                await client.delete(POD, name, "shop", grace_seconds=0)
            else:
                status = {"phase": rng.choice(("Pending", "Running")), "message": str(rng.random())}
                await client.patch(POD, name, {"status": status}, "shop", subresource="status")
        except NotFound:
            await client.create(POD, shop_pod(name))
        if rng.random() < 0.05:
            api.compact()
        if rng.random() < 0.2:
            wanted.append(asyncio.Event())
            informer.refresh(wanted[-1])
    return wanted


async def versions(api: MemoryApi, fields: str | None) -> dict[tuple[str, str], str]:
    return {key_of(pod): pod.metadata.resource_version for pod in (await Client(api).list(POD, fields=fields)).items}


def check(seed: int, plan: FaultPlan, fields: str | None, steps: int) -> None:
    async def story(api: MemoryApi, clock: VirtualClock) -> None:
        faulty = FaultyApi(api, Random(seed), plan)
        informer = Informer(
            Client(faulty), POD, rng=Random(seed), fields=fields, indexes={"ns": by_namespace}, settings=PAGES_OF_TWO
        )
        mirror = Mirror(informer)
        task = asyncio.create_task(informer.run())
        wanted = await disturb(api, informer, Random(seed), steps)
        faulty.plan = FaultPlan()
        await asyncio.sleep(300)
        assert all(listed.is_set() for listed in wanted)
        truth = await versions(api, fields)
        assert {key_of(pod): pod.metadata.resource_version for pod in informer} == truth
        assert {key: pod.metadata.resource_version for key, pod in mirror.pods.items()} == truth
        assert {key_of(pod) for pod in informer.find("ns", "shop")} == truth.keys()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_with_server(story, ServerSettings(history=50))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), plans, st.sampled_from((None, "status.phase=Running")))
def test_cache_equals_the_server_after_faults(seed: int, plan: FaultPlan, fields: str | None) -> None:
    check(seed, plan, fields, steps=40)


@pytest.mark.parametrize("seed", range(3))
def test_cache_equals_the_server_after_many_faults(seed: int) -> None:
    plan = FaultPlan(dropped=0.1, repeated=0.1, late=0.1, busy=0.1, refused=0.1, stale_consistent=0.2)
    check(seed, plan, None, steps=600)
