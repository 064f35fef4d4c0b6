"""Workloads behind injected faults: every one converges to the state it would reach without them."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator

from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model import kinds
from restow.ports import Api, OutcomeUnknown, Request, Response, TooManyRequests
from restow.sim.faults import FaultPlan, FaultyApi
from restow.sim.loop import run_virtual
from tests.sim.fault_plans import PHASES, plans
from tests.sim.simulated_cluster import (
    SimulatedCluster,
    is_pod_ready,
    job,
    on_virtual_time,
    pass_time,
    simulated_cluster,
    workload,
)

NEW_TEMPLATE = {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}


async def _apps(it: SimulatedCluster) -> dict[str, list[tuple[str | None, bool]]]:
    """Per app the version and readiness of its pods."""
    apps: dict[str, list[tuple[str | None, bool]]] = defaultdict(list)
    for each in await it.pods():
        labels = each.metadata.labels or {}
        apps[labels["app"]].append((labels.get("v"), is_pod_ready(each)))
    return apps


@given(st.integers(0, 2**32), plans)
@settings(max_examples=12, deadline=None, phases=PHASES)
def test_a_deployment_converges_behind_faults_of_every_kind(seed: int, plan: FaultPlan) -> None:
    async def story() -> None:
        async with simulated_cluster(
            nodes=2, seed=seed, around=lambda api: FaultyApi(api, random.Random(seed), plan)
        ) as it:
            await it.create(kinds.DEPLOYMENT, workload("web", 4))
            await pass_time(60)
            await it.patch(kinds.DEPLOYMENT, "web", NEW_TEMPLATE)
            await pass_time(5)
            await it.patch(kinds.DEPLOYMENT, "web", {"spec": {"replicas": 6}})
            await pass_time(1800)
            assert await _apps(it) == {"web": [("2", True)] * 6}
            status = (await it.document(kinds.DEPLOYMENT, "web"))["status"]
            assert (status["updatedReplicas"], status["availableReplicas"], status["replicas"]) == (6, 6, 6)

    run_virtual(story())


@given(st.integers(0, 2**32), plans)
@settings(max_examples=6, deadline=None, phases=PHASES)
def test_all_other_workloads_converge_behind_faults(seed: int, plan: FaultPlan) -> None:
    async def story() -> None:
        async with simulated_cluster(
            nodes=3, seed=seed, around=lambda api: FaultyApi(api, random.Random(seed), plan)
        ) as it:
            await it.create(kinds.STATEFUL_SET, workload("db", 3, serviceName="db"))
            await it.create(kinds.JOB, job("etl", run=20, completions=4, parallelism=2))
            await it.create(kinds.DAEMON_SET, workload("agent", None))
            budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "db"}}}
            named = {"metadata": {"name": "db", "namespace": "default"}, "spec": budget}
            await it.create(kinds.POD_DISRUPTION_BUDGET, named)
            await pass_time(100)
            await it.patch(kinds.STATEFUL_SET, "db", NEW_TEMPLATE)
            await it.patch(kinds.DAEMON_SET, "agent", NEW_TEMPLATE)
            await pass_time(10)
            await it.patch(kinds.STATEFUL_SET, "db", {"spec": {"replicas": 2}})
            await pass_time(1800)
            apps = await _apps(it)
            assert (apps["db"], apps["agent"]) == ([("2", True)] * 2, [("2", True)] * 3)
            assert (await it.document(kinds.JOB, "etl"))["status"]["succeeded"] == 4
            status = (await it.document(kinds.POD_DISRUPTION_BUDGET, "db"))["status"]
            assert (status["expectedPods"], status["currentHealthy"], status["disruptionsAllowed"]) == (2, 2, 1)

    run_virtual(story())


class Forgetful:
    """An Api that loses the answers to the creation of pods, shows pods late, and deletes none."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def call(self, request: Request) -> Response:
        of_pods = request.resource.plural == "pods" and request.subresource is None
        if of_pods and request.verb == "delete":
            raise TooManyRequests.because(429, "TooManyRequests", "not now")
        response = await self._api.call(request)
        if of_pods and request.verb == "create":
            raise OutcomeUnknown.because(504, "Timeout", "lost in the net")
        return response

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if request.resource.plural == "pods":
                await asyncio.sleep(3.0)
            yield event


@on_virtual_time
async def test_job_creates_no_surplus_pods_when_creations_have_unknown_outcomes() -> None:
    async with simulated_cluster(nodes=2, around=Forgetful) as it:
        await it.create(kinds.JOB, job("etl", run=20, completions=4, parallelism=2))
        await pass_time(600)
        assert (await it.document(kinds.JOB, "etl"))["status"]["succeeded"] == len(await it.pods()) == 4
