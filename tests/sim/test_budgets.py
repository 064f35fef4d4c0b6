"""Disruption budgets: which pods they count, and which evictions they allow."""

from __future__ import annotations

import pytest

from restow.model import kinds
from restow.model.objects import Document
from restow.model.times import format_time
from tests.sim.simulated_cluster import is_pod_ready, on_virtual_time, pass_time, simulated_cluster, workload
from tests.sim.status_readers import conditions, names, status


@pytest.mark.parametrize(
    ("spec", "expected", "desired", "allowed"),
    [
        pytest.param({"maxUnavailable": 1}, 4, 3, 1, id="one may be missing"),
        pytest.param({"maxUnavailable": "50%"}, 4, 2, 2, id="half may be missing"),
        pytest.param({"minAvailable": 4}, 4, 4, 0, id="all must be there"),
        pytest.param({"minAvailable": "30%"}, 4, 2, 2, id="a share must be there, rounded up"),
    ],
)
def test_pod_budget_counts_expected_and_healthy_pods(spec: Document, expected: int, desired: int, allowed: int) -> None:
    @on_virtual_time
    async def story() -> None:
        async with simulated_cluster() as it:
            await it.create(kinds.DEPLOYMENT, workload("web", 4))
            selector = {"matchLabels": {"app": "web"}}
            budget = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec | {"selector": selector}}
            await it.create(kinds.POD_DISRUPTION_BUDGET, budget)
            await pass_time(10)
            shown = await status(it, kinds.POD_DISRUPTION_BUDGET, "web")
            keys = ("expectedPods", "desiredHealthy", "disruptionsAllowed", "currentHealthy", "observedGeneration")
            assert tuple(shown[key] for key in keys) == (expected, desired, allowed, 4, 1)
            sufficient = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
            assert conditions(shown)["DisruptionAllowed"] == sufficient

    story()


@on_virtual_time
async def test_budget_allows_one_eviction_after_another() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.DEPLOYMENT, workload("web", 3))
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        budget = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
        await it.create(kinds.POD_DISRUPTION_BUDGET, budget)
        await pass_time(10)
        [first, second, _] = await it.pods()
        await it.client.evict("default", first.metadata.name, uid=first.metadata.uid)
        with pytest.raises(Exception, match="disruption budget"):
            await it.client.evict("default", second.metadata.name, uid=second.metadata.uid)
        await pass_time(30)
        await it.client.evict("default", second.metadata.name, uid=second.metadata.uid)
        await pass_time(30)
        assert [is_pod_ready(each) for each in await it.pods()] == [True] * 3


@on_virtual_time
async def test_a_disruption_that_never_happened_is_forgotten_after_two_minutes() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.REPLICA_SET, workload("web", 3))
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        budget = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}
        await it.create(kinds.POD_DISRUPTION_BUDGET, budget)
        await pass_time(10)
        noted = {"disruptedPods": {names(await it.pods())[0]: format_time(it.clock.now())}}
        await it.client.patch(kinds.POD_DISRUPTION_BUDGET, "web", {"status": noted}, "default", subresource="status")
        await pass_time(100)
        assert (await status(it, kinds.POD_DISRUPTION_BUDGET, "web"))["disruptionsAllowed"] == 0
        await pass_time(30)
        shown = await status(it, kinds.POD_DISRUPTION_BUDGET, "web")
        assert (shown["disruptionsAllowed"], shown.get("disruptedPods")) == (1, None)


@on_virtual_time
async def test_budget_over_pods_without_scale_allows_no_eviction_and_says_why() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.DAEMON_SET, workload("agent", None))
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "agent"}}}
        budget = {"metadata": {"name": "agent", "namespace": "default"}, "spec": spec}
        await it.create(kinds.POD_DISRUPTION_BUDGET, budget)
        await pass_time(10)
        shown = await status(it, kinds.POD_DISRUPTION_BUDGET, "agent")
        assert shown["disruptionsAllowed"] == 0
        assert conditions(shown)["DisruptionAllowed"] == ("False", "SyncFailed")
