"""The proposal for guarantees, sentence by sentence, on a running system; what is computed is in tests/queues.

Each row has the nodes, the pods on them, the guarantees of the queues, and the status that they should show.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.model import kinds
from tests.control.queues.queue_controller_fixture import (
    QueueCluster,
    queue_annotation,
    queue_controller_alone,
    queue_document,
)
from tests.control.reservations.reservation_cluster import new_reservation
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time, pod

FOUR = {"n1": "4", "n2": "4", "n3": "4", "n4": "4"}
EXAMPLE = {
    "reclaimable": True,
    "weight": 1,
    "guarantee": {
        "policy": "Best-Effort",
        "percentage": {"dimensions": ["cpu", "memory"], "value": 0.2},
        "resource": {"cpu": "2", "memory": "4G"},
    },
}


def asks(policy: str | None = None, value: float | None = None, **resource: str) -> dict[str, Any]:
    """A guarantee."""
    found: dict[str, Any] = {"policy": policy} if policy else {}
    if value is not None:
        found["percentage"] = {"value": value}
    if resource:
        found["resource"] = resource
    return {"guarantee": found}


def occupied(**cores: str) -> list[dict[str, Any]]:
    """Pods of the default queue, by node."""
    return [pod(f"on-{name}", cpu, nodeName=name) for name, cpu in cores.items()]


def used(by: str, **cores: str) -> list[dict[str, Any]]:
    return [pod(f"of-{by}-{name}", cpu, nodeName=name, annotations=queue_annotation(by)) for name, cpu in cores.items()]


CASES = [
    pytest.param(FOUR, [], {"q1": asks(cpu="4")}, {"q1": "n1"}, id="what a queue asks for is reserved for it"),
    pytest.param(
        FOUR, [], {"q1": asks(cpu="8"), "q2": {}}, {"q1": "n1 n2", "q2": ""}, id="for that queue and for no other"
    ),
    pytest.param(FOUR, [], {"q1": asks(value=0.5)}, {"q1": "n1 n2"}, id="as a percentage of the nodes"),
    pytest.param(FOUR, [], {"q1": asks(value=0.74)}, {"q1": "n1 n2"}, id="of which the floor is taken"),
    pytest.param(FOUR, [], {"q1": asks(value=0.0)}, {"q1": ""}, id="the least legal value"),
    pytest.param(FOUR, [], {"q1": asks(value=1.0)}, {"q1": "n1 n2 n3"}, id="the largest, but never the last node"),
    pytest.param(FOUR, [], {"q1": asks(cpu="17")}, {"q1": "AboveClusterTotal"}, id="no more than the cluster has"),
    pytest.param(
        FOUR,
        [],
        {"q1": asks(cpu="1", memory="100Gi")},
        {"q1": "AboveClusterTotal"},
        id="in no dimension",
    ),
    pytest.param(
        FOUR,
        [],
        {"q1": {**asks(cpu="4"), "capability": {"cpu": "3"}}},
        {"q1": "AboveCapability"},
        id="no more than its capability",
    ),
    pytest.param(
        FOUR,
        [],
        {"q1": {**asks(cpu="4"), "capability": {"memory": "1Gi"}}},
        {"q1": "n1"},
        id="where that is set",
    ),
    pytest.param(
        {"n1": "8", "n2": "5", "n3": "4"}, [], {"q1": asks(cpu="5")}, {"q1": "n2"}, id="enough, and not too much"
    ),
    pytest.param(FOUR, [], {"q1": asks(cpu="1", memory="20Gi")}, {"q1": "n1 n2"}, id="enough in every dimension"),
    pytest.param(FOUR, [], {"q1": asks(value=0.5, cpu="4")}, {"q1": "n1 n2"}, id="of both, the percentage if more"),
    pytest.param(FOUR, [], {"q1": asks(value=0.25, cpu="12")}, {"q1": "n1 n2 n3"}, id="of both, the amount if more"),
    pytest.param(
        FOUR,
        [],
        {"q1": asks(cpu="4"), "q2": asks(cpu="8")},
        {"q1": "n1", "q2": "n2 n3"},
        id="a node that another queue has cannot be chosen",
    ),
    pytest.param(
        {"n1": "2", "n2": "2", "n3": "4", "n4": "6"},
        [],
        {"q1": asks(cpu="4")},
        {"q1": "n3"},
        id="few nodes, if that costs nothing",
    ),
    pytest.param(
        FOUR,
        used("q1", n3="1"),
        {"q1": asks(cpu="4")},
        {"q1": "n3"},
        id="where the queue is already, if that is enough",
    ),
    pytest.param(FOUR, occupied(n1="1"), {"q1": asks(cpu="3")}, {"q1": "n2"}, id="idle ones rather than others"),
    pytest.param(
        FOUR,
        occupied(n1="1", n2="1", n3="1", n4="1"),
        {"q1": asks("Best-Effort", cpu="12")},
        {"q1": "n1 n2 n3"},
        id="without evictions: what other pods leave becomes its own",
    ),
    pytest.param(FOUR, [], {"q1": EXAMPLE}, {"q1": "n1"}, id="the example, as YAML allows it"),
]


@pytest.mark.parametrize(("nodes", "pods", "queues", "expected"), CASES)
@on_virtual_time
async def test_guarantee_proposal_sentence_holds(
    nodes: dict[str, str], pods: list[dict[str, Any]], queues: dict[str, Any], expected: dict[str, str]
) -> None:
    async with queue_controller_alone(nodes=0) as it:
        for name, cpu in nodes.items():
            await it.create(kinds.NODE, node(name, cpu=cpu))
        for one in pods:
            await it.create(kinds.POD, one)
        await pass_time(1)
        for name, spec in queues.items():
            await it.create(kinds.QUEUE, queue_document(name, **spec))
        await pass_time(6)
        assert {name: await _shown(it, name) for name in queues} == expected


async def _shown(it: QueueCluster, name: str) -> str:
    status, reason, _ = await it.condition_of(name, "Rejected")
    return reason or "" if status == "True" else await it.locked_nodes(name)


@on_virtual_time
async def test_node_with_a_seat_of_another_queue_is_not_locked() -> None:
    async with queue_controller_alone(nodes=3) as it:
        await it.create(kinds.RESERVATION, new_reservation("seat", 1, "1"))
        status = {"state": {"phase": "Available"}, "placements": [{"task": "web", "index": 0, "nodeName": "n1"}]}
        await it.client.patch(kinds.RESERVATION, "seat", {"status": status}, "default", subresource="status")
        await pass_time(1)
        await it.create_guarantee(resource={"cpu": "3"})
        assert await it.locked_nodes() == "n2"


@on_virtual_time
async def test_large_guarantee_does_not_block_jobs_of_other_queues() -> None:
    async with queue_controller_alone(maxGuaranteed=50, maxGuaranteedPerQueue=50) as it:
        await it.create_guarantee("greedy", resource={"cpu": "9"})
        await it.create_guarantee("modest", resource={"cpu": "8"})
        await it.create_guarantee("late", resource={"cpu": "1"})
        shown = [await _shown(it, name) for name in ("greedy", "modest", "late")]
        assert shown == ["AboveQueueCeiling", "n1 n2", "AboveClusterCeiling"]
        await it.delete(kinds.QUEUE, "modest")
        await pass_time(1)
        assert await _shown(it, "late") == "n1"


@on_virtual_time
async def test_accepted_queue_loses_no_node_to_a_newcomer_of_its_priority() -> None:
    async with queue_controller_alone(maxGuaranteed=50, maxGuaranteedPerQueue=50) as it:
        await it.create_guarantee("old", resource={"cpu": "4"})
        await it.create_guarantee("b", resource={"cpu": "4"})
        await it.create(kinds.QUEUE, queue_document("a", weight=9, **asks(cpu="4")))
        await it.change_queue("b", guarantee={"resource": {"cpu": "5"}})  # a queue that asks for more is a newcomer
        assert [await _shown(it, name) for name in ("old", "b", "a")] == ["n1", "AboveClusterCeiling", "n2"]
        await it.create(kinds.QUEUE, queue_document("z", priority=1, **asks(cpu="4")))
        await pass_time(6)
        told = [await _shown(it, name) for name in ("old", "a", "z")]
        assert told == ["AboveClusterCeiling", "n2", "n1"]  # of those that are left, weight decides


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"weight": 1}, id="its weight is lowered"),
        pytest.param({"capability": {"cpu": "16"}}, id="it is limited"),
        pytest.param({"guarantee": {"policy": "Guaranteed"}}, id="its policy is another"),
        pytest.param({"guarantee": {"resource": {"cpu": "3"}}}, id="it asks for less"),
    ],
)
@on_virtual_time
async def test_edit_that_asks_for_no_more_costs_no_lock(edit: dict[str, Any]) -> None:
    async with queue_controller_alone(maxGuaranteed=50, maxGuaranteedPerQueue=50) as it:
        await it.create(kinds.QUEUE, queue_document("old", weight=2, **asks(cpu="4")))
        await it.create_guarantee("other", resource={"cpu": "4"})
        await it.create(kinds.QUEUE, queue_document("a", weight=9, **asks(cpu="4")))
        await it.change_queue("old", **edit)
        await pass_time(6)
        assert [await _shown(it, name) for name in ("old", "other", "a")] == ["n1", "n2", "AboveClusterCeiling"]


@on_virtual_time
async def test_queue_status_has_the_shape_of_the_proposal() -> None:
    async with queue_controller_alone(nodes=5) as it:
        await it.create(kinds.POD, pod("other", "1", nodeName="n1"))
        await pass_time(1)
        await it.create_guarantee(percentage={"dimensions": ["cpu"], "value": 0.4})
        status = (await it.document(kinds.QUEUE, "q1"))["status"]
        assert status["state"] == "Open"
        assert status["reservation"] == {"nodes": ["n2", "n3"], "resource": {"cpu": "8", "memory": "32Gi"}}


@on_virtual_time
async def test_locks_and_idle_amounts_are_updated_every_few_seconds() -> None:
    async with queue_controller_alone(nodes=3, relockPeriod="10s") as it:
        await it.create_guarantee(resource={"cpu": "2"})
        await it.create(kinds.POD, pod("other", "1", nodeName="n1"))
        await pass_time(1)
        before = msgspec.to_builtins((await it.read_queue()).status.reservation)
        await pass_time(10)
        after = msgspec.to_builtins((await it.read_queue()).status.reservation)
        assert (before["resource"]["cpu"], after["resource"]["cpu"]) == ("4", "3")
