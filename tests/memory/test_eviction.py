"""Evictions and budgets: every row of the decision table, and what each outcome writes."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import Conflict, Forbidden, Invalid, OutcomeUnknown, TooManyRequests
from tests.memory.cluster import Cluster, budget, pod

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
HEALTHY = {
    "observedGeneration": 1,
    "disruptionsAllowed": 1,
    "currentHealthy": 2,
    "desiredHealthy": 1,
    "expectedPods": 2,
}
EXHAUSTED = {**HEALTHY, "disruptionsAllowed": 0, "currentHealthy": 1}


async def running(cluster: Cluster, **status: Any) -> Document:
    await cluster.create("pods", pod("a", labels={"app": "web"}))
    await cluster.bind("a")
    return await cluster.set_status("pods", "a", {"phase": "Running", **READY, **status})


async def guarded(cluster: Cluster, status: Document, name: str = "b", **spec: Any) -> None:
    await cluster.create("poddisruptionbudgets", budget(name, **spec))
    await cluster.set_status("poddisruptionbudgets", name, status)


async def evict(cluster: Cluster, name: str = "a", **options: Any) -> Document:
    query = {"dryRun": options.pop("dryRun")} if "dryRun" in options else {}
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": options,
    }
    return await cluster.call("create", "pods", "a", body, sub="eviction", **query)


async def deleting(cluster: Cluster) -> bool:
    return "deletionTimestamp" in (await cluster.get("pods", "a"))["metadata"]


async def test_eviction_without_a_budget_marks_and_deletes_the_pod(cluster: Cluster) -> None:
    await running(cluster)
    assert (await evict(cluster))["status"] == "Success"
    stored = await cluster.get("pods", "a")
    assert stored["metadata"]["deletionGracePeriodSeconds"] == 30
    mark = stored["status"]["conditions"][-1]
    assert (mark["type"], mark["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


async def test_evictions_use_up_the_budget(cluster: Cluster) -> None:
    await running(cluster)
    await guarded(cluster, HEALTHY)
    await evict(cluster)
    status = (await cluster.get("poddisruptionbudgets", "b"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [("DisruptionAllowed", "False")]
    assert await deleting(cluster)


@pytest.mark.parametrize(
    ("status", "words", "retry"),
    [
        (EXHAUSTED, "The disruption budget b needs 1 healthy pods and has 1 currently", None),
        ({**HEALTHY, "observedGeneration": 0}, "b is still being processed by the server", 10),
        ({**EXHAUSTED, "currentHealthy": 3}, "b does not allow evicting pods currently", None),
    ],
    ids=["nothing left", "not observed yet", "held back"],
)
async def test_eviction_beyond_the_budget_is_refused(
    cluster: Cluster, status: Document, words: str, retry: int | None
) -> None:
    before = await running(cluster)
    await guarded(cluster, status)
    with pytest.raises(TooManyRequests, match="Cannot evict pod as it would violate") as refused:
        await evict(cluster)
    details = refused.value.status.details
    assert details is not None and details.causes is not None
    assert (details.causes[0].reason, details.retry_after_seconds) == ("DisruptionBudget", retry)
    assert words in str(details.causes[0].message)
    assert await cluster.get("pods", "a") == before


@pytest.mark.parametrize(
    ("pod_status", "pdb_status", "spec", "allowed"),
    [
        ({"phase": "Pending", "conditions": []}, EXHAUSTED, {}, True),
        ({"phase": "Succeeded"}, EXHAUSTED, {}, True),
        ({"phase": "Failed"}, EXHAUSTED, {}, True),
        ({"conditions": []}, EXHAUSTED, {}, True),
        ({"conditions": []}, {**EXHAUSTED, "currentHealthy": 0}, {}, False),
        ({"conditions": []}, {**EXHAUSTED, "currentHealthy": 0}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, True),
        ({"conditions": []}, {**EXHAUSTED, "currentHealthy": 0, "desiredHealthy": 0}, {}, False),
    ],
    ids=[
        "pending",
        "succeeded",
        "failed",
        "unready, healthy enough without it",
        "unready, not healthy enough",
        "unready, always allowed",
        "unready, nothing desired",
    ],
)
async def test_pods_that_do_not_count_as_healthy(
    cluster: Cluster, pod_status: Document, pdb_status: Document, spec: Document, allowed: bool
) -> None:
    await running(cluster, **pod_status)
    await guarded(cluster, pdb_status, **spec)
    if allowed:
        await evict(cluster)
        assert "a" not in await cluster.names("pods") or await deleting(cluster)
        assert (await cluster.get("poddisruptionbudgets", "b"))["status"]["disruptionsAllowed"] == 0
    else:
        with pytest.raises(TooManyRequests):
            await evict(cluster)


async def test_a_pod_on_its_way_out_needs_no_budget(cluster: Cluster) -> None:
    await running(cluster)
    await guarded(cluster, EXHAUSTED)
    await cluster.delete("pods", "a")
    await evict(cluster)
    marks = (await cluster.get("pods", "a"))["status"]["conditions"]
    assert await deleting(cluster)
    assert marks[-1]["type"] == "DisruptionTarget"


async def test_eviction_under_two_budgets_is_refused(cluster: Cluster) -> None:
    await running(cluster)
    for name in ("b", "c"):
        await guarded(cluster, HEALTHY, name)
    with pytest.raises(OutcomeUnknown, match="more than one PodDisruptionBudget") as refused:
        await evict(cluster)
    assert refused.value.status.code == 500


@pytest.mark.parametrize(
    ("status", "words"),
    [({"disruptionsAllowed": -1}, "negative"), ({"disruptedPods": {str(n): "x" for n in range(2001)}}, "too big")],
    ids=["negative", "too many under way"],
)
async def test_eviction_under_a_broken_budget_is_refused(cluster: Cluster, status: Document, words: str) -> None:
    await running(cluster)
    if "disruptedPods" in status:
        status = {"disruptedPods": dict.fromkeys(status["disruptedPods"], "2026-01-01T00:00:00Z")}
    await guarded(cluster, {**HEALTHY, **status})
    with pytest.raises(Forbidden, match=words):
        await evict(cluster)


@pytest.mark.parametrize("how", [{"dryRun": "All"}, {"dry_run": True}], ids=["query", "body"])
async def test_dry_run_eviction_changes_nothing(cluster: Cluster, how: Document) -> None:
    before = await running(cluster)
    await guarded(cluster, HEALTHY)
    version = cluster.api.version
    if "dry_run" in how:
        body = {"metadata": {"name": "a"}, "deleteOptions": {"dryRun": ["All"]}}
        await cluster.call("create", "pods", "a", body, sub="eviction")
    else:
        await evict(cluster, **how)
    assert cluster.api.version == version
    assert await cluster.get("pods", "a") == before


async def test_a_dry_run_is_refused_like_the_real_thing(cluster: Cluster) -> None:
    await running(cluster)
    await guarded(cluster, EXHAUSTED)
    with pytest.raises(TooManyRequests):
        await evict(cluster, dryRun="All")


@pytest.mark.parametrize("must", [{"uid": "another"}, {"resourceVersion": "1"}], ids=["uid", "version"])
async def test_another_pod_of_that_name_is_left_alone(cluster: Cluster, must: Document) -> None:
    await running(cluster)
    await guarded(cluster, HEALTHY)
    with pytest.raises(Conflict, match="in the precondition"):
        await evict(cluster, preconditions=must)
    assert (await cluster.get("poddisruptionbudgets", "b"))["status"] == HEALTHY
    assert not await deleting(cluster)


async def test_a_precondition_on_the_version_survives_the_mark(cluster: Cluster) -> None:
    before = await running(cluster)
    await evict(cluster, preconditions={"resourceVersion": before["metadata"]["resourceVersion"]})
    assert await deleting(cluster)


async def test_eviction_with_another_name_is_refused(cluster: Cluster) -> None:
    await running(cluster)
    with pytest.raises(Invalid, match="name in URL does not match"):
        await evict(cluster, "another")


async def test_the_grace_period_is_the_caller_s(cluster: Cluster) -> None:
    await running(cluster)
    await evict(cluster, gracePeriodSeconds=0)
    assert await cluster.names("pods") == []
