"""The locks of all queues: which queue gets which nodes, which loses them, and the messages."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from restow.model.objects import Queue
from restow.queues.guarantee_ceilings import GuaranteeCeilings
from restow.queues.node_capacity import CapacityOfNodes
from restow.queues.node_locks import GuaranteeDecision, GuaranteeState, LockOptions, decide_locks, locks_in_status
from tests.queues.node_capacity_fixture import node_capacity, node_spec, queue, vector

FREE = LockOptions(ceilings=GuaranteeCeilings(all_queues=100, any_queue=100))
CPU8 = {"resource": {"cpu": "8"}}


def locked(nodes: dict[str, Any], *queues: Queue, rules: LockOptions = FREE) -> dict[str, GuaranteeDecision]:
    return decide_locks(node_capacity(nodes), queues, locks_in_status(queues), rules)


def nodes_of(locks: dict[str, GuaranteeDecision]) -> dict[str, str]:
    return {name: " ".join(lock.nodes) for name, lock in locks.items()}


FOUR = {"a": node_spec(), "b": node_spec(), "c": node_spec(), "d": node_spec()}


@pytest.mark.parametrize(
    ("nodes", "queues", "expected"),
    [
        pytest.param(FOUR, [queue("q1", guarantee=CPU8)], {"q1": "a"}, id="enabled"),
        pytest.param(FOUR, [queue("q1", nodes=("a",))], {"q1": ""}, id="disabled: released at once"),
        pytest.param(
            FOUR,
            [queue("q1", guarantee={"resource": {"cpu": "16"}}, nodes=("c",))],
            {"q1": "a c"},
            id="changed: what is missing is added",
        ),
        pytest.param(
            FOUR,
            [queue("q1", guarantee=CPU8, nodes=("a",), state="Closed"), queue("q2", guarantee=CPU8)],
            {"q1": "", "q2": "a"},
            id="closed: the next may have it in the same pass",
        ),
        pytest.param(
            FOUR,
            [queue("q1", guarantee=CPU8), queue("q2", guarantee=CPU8, nodes=("a",))],
            {"q1": "b", "q2": "a"},
            id="a node locked by another queue cannot be chosen",
        ),
        pytest.param(
            {**FOUR, "a": node_spec(held=True)},
            [queue("q1", guarantee=CPU8), queue("other", guarantee=CPU8)],
            {"other": "a", "q1": "b"},
            id="a node held for a job of another queue cannot be chosen",
        ),
        pytest.param(
            {**FOUR, "a": node_spec(held=True)},
            [queue("q1", guarantee=CPU8, nodes=("a",))],
            {"q1": "a"},
            id="but a lock is not given up for it",
        ),
        pytest.param(
            FOUR,
            [
                queue("a1", guarantee=CPU8),
                queue("b2", guarantee=CPU8, weight=9),
                queue("c3", guarantee=CPU8, priority=1),
            ],
            {"c3": "a", "b2": "b", "a1": "c"},
            id="by priority, weight, name",
        ),
        pytest.param(
            FOUR,
            [queue("q1", guarantee=CPU8, nodes=("a",)), queue("q2", guarantee=CPU8, nodes=("a",))],
            {"q1": "a", "q2": "b"},
            id="two that show the same node",
        ),
        pytest.param(
            {"b": node_spec(), "c": node_spec()},
            [queue("q1", guarantee=CPU8, nodes=("a",))],
            {"q1": "b"},
            id="a node removed",
        ),
        pytest.param(
            {**FOUR, "b": node_spec(cordoned=True)},
            [queue("q1", guarantee=CPU8, nodes=("b",))],
            {"q1": "a"},
            id="a node cordoned",
        ),
        pytest.param(
            {**FOUR, "b": node_spec(4, 16)},
            [queue("q1", guarantee=CPU8, nodes=("b",))],
            {"q1": "a"},
            id="a node that became too small",
        ),
        pytest.param(
            {"a": node_spec(4, 16), "b": node_spec(4, 16), "c": node_spec()},
            [queue("q1", guarantee={"resource": {"cpu": "4"}}, nodes=("c",))],
            {"q1": "a"},
            id="better nodes added",
        ),
        pytest.param(
            {"a": node_spec(), "b": node_spec()},
            [queue("q1", guarantee={"percentage": {"value": 1.0}})],
            {"q1": "a"},
            id="never the last schedulable node",
        ),
        pytest.param(
            {"a": node_spec(), "b": node_spec(), "c": node_spec(cordoned=True)},
            [queue("q1", guarantee=CPU8, nodes=("a",)), queue("q2", guarantee=CPU8, nodes=("b",))],
            {"q1": "", "q2": "b"},
            id="and one is given up when the others are cordoned",
        ),
        pytest.param(
            {"a": node_spec(), "b": node_spec(), "m": node_spec(tainted=True)},
            [queue("q1", guarantee={"resource": {"cpu": "16"}})],
            {"q1": "a m"},
            id="one that only few pods tolerate is not what is left to others",
        ),
        pytest.param(
            {"a": node_spec(), "b": node_spec(cordoned=True), "m": node_spec(tainted=True)},
            [queue("q1", guarantee=CPU8, nodes=("a",))],
            {"q1": "m"},
            id="and a lock is given up for that",
        ),
        pytest.param(
            {"m": node_spec(tainted=True), "n": node_spec(tainted=True)},
            [queue("q1", guarantee=CPU8)],
            {"q1": "m"},
            id="where all are tainted, one of them is left",
        ),
        pytest.param(
            FOUR,
            [queue("q1", guarantee={"percentage": {"value": 1}}), queue("q2", guarantee={"percentage": {"value": 1}})],
            {"q1": "a b c", "q2": ""},
            id="two that want everything",
        ),
    ],
)
def test_locks_are_decided_for(nodes: dict[str, Any], queues: list[Queue], expected: dict[str, str]) -> None:
    assert nodes_of(locked(nodes, *queues)) == expected


def test_example_of_the_proposal_locks_two_nodes() -> None:
    both = {"percentage": {"dimensions": ["cpu", "memory"], "value": 0.2}, "resource": {"cpu": "2", "memory": "4G"}}
    nodes = {f"n{number}": node_spec() for number in range(1, 11)}
    lock = locked(nodes, queue("q1", weight=1, reclaimable=True, guarantee=both), rules=LockOptions())["q1"]
    assert (lock.nodes, lock.policy, lock.idle) == (("n1", "n10"), "Best-Effort", vector(cpu="16", memory="64Gi"))


def test_deleted_queue_releases_its_nodes_at_once() -> None:
    queues = [queue("q2", guarantee=CPU8)]
    assert nodes_of(decide_locks(node_capacity(FOUR), queues, {"gone": ("a",)}, FREE)) == {"q2": "a"}


@pytest.mark.parametrize(
    ("nodes", "spec", "state", "message"),
    [
        pytest.param(
            {"a": node_spec(own={"q1": 3}), "b": node_spec()},
            {"guarantee": {"resource": {"cpu": "8", "memory": "4Gi"}}},
            GuaranteeState.SATISFIED,
            "1 node locked; cpu (asked 8, idle 5, used by the queue 3); "
            "memory (asked 4Gi, idle 20Gi, used by the queue 12Gi)",
            id="satisfied: idle and own use are enough",
        ),
        pytest.param(
            {"a": node_spec(taken=3), "b": node_spec(taken=5)},
            {"guarantee": CPU8},
            GuaranteeState.UNSATISFIED,
            "1 node locked; cpu (asked 8, idle 5, used by the queue 0)",
            id="unsatisfied: others are still there",
        ),
        pytest.param(
            {"a": node_spec(), "b": node_spec()},
            {"guarantee": {"percentage": {"value": 1}}},
            GuaranteeState.UNSATISFIED,
            "1 of 2 nodes are locked",
            id="unsatisfied: too few nodes",
        ),
        pytest.param(
            {"a": node_spec(), "b": node_spec()},
            {"guarantee": {"percentage": {"value": 0.5, "dimensions": ["gpu", "cpu", "disk"]}}},
            GuaranteeState.SATISFIED,
            "1 of 1 nodes are locked, not compared by disk, gpu, which no node has",
            id="satisfied: but not by dimensions that do not exist",
        ),
        pytest.param(
            {"a": node_spec(), "b": node_spec()},
            {"guarantee": {"percentage": {"value": 0.4}}},
            GuaranteeState.SATISFIED,
            "no node is locked: the percentage of 2 nodes comes to less than one",
            id="satisfied: less than a node is nothing",
        ),
        pytest.param(
            {"a": node_spec(), "b": node_spec()},
            {"guarantee": {"resource": {"cpu": "17"}}},
            GuaranteeState.REJECTED,
            "the guarantee is more than the cluster has: cpu (asked 17, total 16)",
            id="rejected",
        ),
    ],
)
def test_lock_message_says(nodes: dict[str, Any], spec: dict[str, Any], state: GuaranteeState, message: str) -> None:
    lock = locked(nodes, queue("q1", **spec))["q1"]
    assert (lock.state, lock.message) == (state, message)


def test_lock_shows_what_is_idle_on_its_nodes() -> None:
    lock = locked(
        {"a": node_spec(taken=2), "b": node_spec(taken=2)}, queue("q1", guarantee={"resource": {"cpu": "6"}})
    )["q1"]
    assert (lock.nodes, lock.idle) == (("a",), vector(cpu="6", memory="24Gi"))


def test_rejected_guarantee_locks_nothing_and_takes_nothing_from_the_ceiling() -> None:
    half = {"resource": {"cpu": "16"}}
    locks = locked(
        FOUR,
        queue("q1", guarantee={"resource": {"cpu": "17"}}, nodes=("a",)),
        queue("q2", guarantee=half),
        queue("q3", guarantee={"resource": {"cpu": "1"}}),
        rules=LockOptions(),
    )
    assert {name: lock.reason for name, lock in locks.items()} == {
        "q1": "AboveQueueCeiling",
        "q2": "Satisfied",
        "q3": "AboveClusterCeiling",
    }
    assert nodes_of(locks)["q1"] == ""


@pytest.mark.parametrize("seed", range(12))
def test_locks_are_sound_and_come_to_rest(seed: int) -> None:
    random = Random(seed)
    present: dict[str, tuple[str, ...]] = {}
    for _ in range(4):
        cluster, queues = node_capacity(some_nodes(random)), some_queues(random)
        for _ in range(4):
            locks = decide_locks(cluster, queues, present, FREE)
            assert decide_locks(cluster, queues[::-1], present, FREE) == locks
            assert_sound(cluster, locks)
            before, present = present, {name: lock.nodes for name, lock in locks.items()}
        assert all(before.get(name, ()) == nodes for name, nodes in present.items())


def some_nodes(random: Random) -> dict[str, Any]:
    sizes = [(4, 16), (8, 32), (16, 64)]
    return {
        f"n{number:02}": node_spec(
            *random.choice(sizes),
            taken=random.randint(0, 5),
            own={f"q{random.randint(0, 3)}": random.randint(0, 3)},
            cordoned=random.random() < 0.1,
            held=random.random() < 0.1,
            tainted=random.random() < 0.2,
        )
        for number in range(random.randint(0, 14))
    }


def some_queues(random: Random) -> list[Queue]:
    def guarantee() -> dict[str, Any] | None:
        amounts = {"cpu": str(random.randint(0, 20)), "memory": f"{random.randint(0, 60)}Gi"}
        return random.choice([{"resource": amounts}, {"percentage": {"value": random.random()}}, None])

    return [queue(f"q{number}", guarantee=guarantee(), weight=random.randint(1, 3)) for number in range(5)]


def assert_sound(cluster: CapacityOfNodes, locks: dict[str, GuaranteeDecision]) -> None:
    """No node twice, none that takes no pods, and one that is left."""
    nodes = [name for lock in locks.values() for name in lock.nodes]
    open_ones = {name for name, takes_pods in zip(cluster.names, cluster.schedulable, strict=True) if takes_pods}
    assert len(nodes) == len(set(nodes))
    assert set(nodes) <= open_ones
    assert len(nodes) < max(len(open_ones), 1)
    untainted = {name for name, is_one in zip(cluster.names, cluster.untainted, strict=True) if is_one} & open_ones
    assert untainted - set(nodes) or not untainted


def test_locks_do_not_change_if_nothing_changed() -> None:
    queues = [queue(f"q{number}", guarantee={"resource": {"cpu": str(number + 1)}}) for number in range(6)]
    nodes = {f"n{number}": node_spec(taken=number % 5) for number in range(12)}
    first = decide_locks(node_capacity(nodes), queues, {}, FREE)
    assert (
        decide_locks(node_capacity(nodes), queues[::-1], {name: lock.nodes for name, lock in first.items()}, FREE)
        == first
    )
