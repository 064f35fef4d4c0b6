"""pods/eviction: a delete that asks the disruption budgets first."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.objects import Document
from restow.ports import MERGE_PATCH, ApiError, Conflict, NotFound, OutcomeUnknown, TooManyRequests
from tests.conformance.documents import binding, budget, eviction, pod
from tests.conformance.server import Server, eventually

LABELS = {"app": "web"}


async def running_pod(server: Server, name: str, *, ready: bool = True) -> Document:
    await server.create("pods", pod(name, labels=LABELS))
    await server.create("pods", binding(name), name=name, sub="binding")
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return await server.patch("pods", name, MERGE_PATCH, {"status": status}, sub="status")


async def settled_budget(server: Server, name: str, *, healthy: int, minimum: int, **spec: Any) -> None:
    """A budget with the status that the disruption controller writes; where none runs, the test writes it."""
    created = await server.create("poddisruptionbudgets", budget(name, LABELS, minAvailable=minimum, **spec))
    expected = {
        "observedGeneration": created["metadata"]["generation"],
        "disruptionsAllowed": max(0, healthy - minimum),
        "currentHealthy": healthy,
        "desiredHealthy": minimum,
        "expectedPods": healthy,
    }
    await server.patch("poddisruptionbudgets", name, MERGE_PATCH, {"status": expected}, sub="status")

    async def settled() -> bool:
        status = (await server.get("poddisruptionbudgets", name))["status"]
        return all(status.get(key) == expected[key] for key in ("disruptionsAllowed", "currentHealthy"))

    await eventually(settled, f"budget {name} has settled")


async def budget_numbers(server: Server, name: str) -> Document:
    """All of a budget's status but the conditions, which a live controller may add while a test looks."""
    status = (await server.get("poddisruptionbudgets", name))["status"]
    return {key: value for key, value in status.items() if key != "conditions"}


async def evict(server: Server, name: str, options: Document | None = None, **query: str) -> Document:
    return await server.create("pods", eviction(name, options), name=name, sub="eviction", **query)


async def terminating(server: Server, name: str) -> bool:
    return "deletionTimestamp" in (await server.get("pods", name))["metadata"]


async def test_eviction_without_a_budget_is_a_delete(server: Server) -> None:
    await running_pod(server, "a")
    answer = await evict(server, "a")
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)
    assert await terminating(server, "a")


async def test_evicted_pod_gets_the_disruption_target_condition(server: Server) -> None:
    await running_pod(server, "a")
    await evict(server, "a")
    conditions = (await server.get("pods", "a"))["status"]["conditions"]
    (target,) = [c for c in conditions if c["type"] == "DisruptionTarget"]
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
    assert target["message"] == "Eviction API: evicting"


async def test_exhausted_budget_answers_too_many_requests(server: Server) -> None:
    await running_pod(server, "a")
    await settled_budget(server, "keep", healthy=1, minimum=1)
    with pytest.raises(TooManyRequests, match="violate the pod's disruption budget") as refused:
        await evict(server, "a")
    status = refused.value.status
    assert status.code == 429
    assert status.details is not None
    (cause,) = status.details.causes or []
    assert cause.reason == "DisruptionBudget"
    assert cause.message == "The disruption budget keep needs 1 healthy pods and has 1 currently"
    assert not await terminating(server, "a")


async def test_budget_allows_its_disruptions(server: Server) -> None:
    for name in "ab":
        await running_pod(server, name)
    await settled_budget(server, "keep", healthy=2, minimum=1)
    await evict(server, "a")
    status = (await server.get("poddisruptionbudgets", "keep"))["status"]
    assert status["disruptionsAllowed"] == 0
    with pytest.raises(TooManyRequests):
        await evict(server, "b")


async def test_budget_records_its_disrupted_pods(server: Server) -> None:
    for name in "ab":
        await running_pod(server, name)
    await settled_budget(server, "keep", healthy=2, minimum=1)
    before = (await server.get("poddisruptionbudgets", "keep"))["metadata"]["resourceVersion"]
    async with server.watch("poddisruptionbudgets", resourceVersion=before) as events:
        await evict(server, "a")
        seen = await events.until(lambda event: "disruptedPods" in event["object"]["status"])
    assert list(seen[-1]["object"]["status"]["disruptedPods"]) == ["a"]


async def test_eviction_under_two_budgets_is_an_error(server: Server) -> None:
    await running_pod(server, "a")
    for name in ("one", "two"):
        await settled_budget(server, name, healthy=1, minimum=0)
    with pytest.raises(OutcomeUnknown) as refused:
        await evict(server, "a")
    status = refused.value.status
    assert status.code == 500
    assert "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." in (
        status.message
    )


async def test_a_stale_budget_asks_for_patience(server: Server) -> None:
    """A status for an older generation of the budget is not used; a controller soon updates it."""
    await running_pod(server, "a")
    await settled_budget(server, "keep", healthy=1, minimum=1)
    await server.patch("poddisruptionbudgets", "keep", MERGE_PATCH, {"status": {"observedGeneration": 0}}, sub="status")
    with pytest.raises(TooManyRequests):
        await evict(server, "a")


async def test_dry_run_eviction_evicts_nothing(server: Server) -> None:
    await running_pod(server, "a")
    await settled_budget(server, "keep", healthy=1, minimum=0)
    before = await budget_numbers(server, "keep")
    await evict(server, "a", dryRun="All")
    await evict(server, "a", {"dryRun": ["All"]})
    assert not await terminating(server, "a")
    assert await budget_numbers(server, "keep") == before


async def test_a_dry_run_tells_of_the_budget(server: Server) -> None:
    await running_pod(server, "a")
    await settled_budget(server, "keep", healthy=1, minimum=1)
    with pytest.raises(TooManyRequests):
        await evict(server, "a", {"dryRun": ["All"]})


async def test_a_pending_pod_is_not_counted(server: Server) -> None:
    await running_pod(server, "a")
    await settled_budget(server, "keep", healthy=1, minimum=1)
    await server.create("pods", pod("b", labels=LABELS))
    await evict(server, "b")
    with pytest.raises(NotFound):
        await server.get("pods", "b")


async def test_a_finished_pod_is_not_counted(server: Server) -> None:
    await running_pod(server, "a")
    await running_pod(server, "b")
    over = {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]}
    await server.patch("pods", "b", MERGE_PATCH, {"status": over}, sub="status")
    await settled_budget(server, "keep", healthy=1, minimum=1)
    await evict(server, "b")
    with pytest.raises(NotFound):
        await server.get("pods", "b")


async def test_a_terminating_pod_can_be_evicted_again(server: Server) -> None:
    await running_pod(server, "a")
    await settled_budget(server, "keep", healthy=1, minimum=1)
    await server.delete("pods", "a")
    answer = await evict(server, "a")
    assert answer["status"] == "Success"


async def test_an_unready_pod_is_let_go_when_the_budget_is_met(server: Server) -> None:
    await running_pod(server, "a")
    await running_pod(server, "b", ready=False)
    await settled_budget(server, "keep", healthy=1, minimum=1)
    await evict(server, "b")
    assert await terminating(server, "b")


async def test_an_unready_pod_is_always_let_go_by_policy(server: Server) -> None:
    await running_pod(server, "a", ready=False)
    await settled_budget(server, "keep", healthy=0, minimum=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    await evict(server, "a")
    assert await terminating(server, "a")


async def test_an_unready_pod_is_kept_when_the_budget_is_not_met(server: Server) -> None:
    await running_pod(server, "a", ready=False)
    await settled_budget(server, "keep", healthy=0, minimum=1)
    with pytest.raises(TooManyRequests):
        await evict(server, "a")


async def test_eviction_of_another_uid_conflicts(server: Server) -> None:
    await running_pod(server, "a")
    with pytest.raises(Conflict, match="UID"):
        await evict(server, "a", {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}})
    assert not await terminating(server, "a")


async def test_eviction_of_the_same_uid_is_accepted(server: Server) -> None:
    created = await running_pod(server, "a")
    await evict(server, "a", {"preconditions": {"uid": created["metadata"]["uid"]}, "gracePeriodSeconds": 3})
    meta = (await server.get("pods", "a"))["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 3


async def test_eviction_of_a_missing_pod_is_not_found(server: Server) -> None:
    with pytest.raises(NotFound):
        await evict(server, "missing")


async def test_eviction_of_another_name_is_refused(server: Server) -> None:
    await running_pod(server, "a")
    with pytest.raises(ApiError, match="name in URL does not match name in Eviction object"):
        await server.create("pods", eviction("b"), name="a", sub="eviction")


async def test_a_selector_of_nothing_matches_every_pod(server: Server) -> None:
    await running_pod(server, "a")
    document = budget("keep", LABELS, minAvailable=1)
    document["spec"]["selector"] = {}
    await server.create("poddisruptionbudgets", document)
    with pytest.raises(TooManyRequests):
        await evict(server, "a")
