"""What the API server is shown to refuse by: the limits of conditions, worked out for whoever may come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.guarantees import Asked, Cluster, Reason, request_of
from restow.model.quantity import amount
from restow.queues import parameters as module
from restow.queues.ceilings import Ceilings, over_ceiling
from restow.queues.parameters import Promise, parameters
from tests.queues.fleets import queue, vector

TEN = Cluster(10, vector(cpu="80", memory="320Gi", **{"nvidia.com/gpu": "8"}))
CPU = Cluster(10, vector(cpu="80"))
LONG = "q" * 200


def promise(name: str, cpu: str, priority: int = 0) -> Promise:
    return Promise(name, priority, vector(cpu=cpu))


@pytest.mark.parametrize(
    ("ceilings", "cluster", "shown"),
    [
        pytest.param(Ceilings(), None, {"share_": "50"}, id="a cluster that nobody has looked at"),
        pytest.param(
            Ceilings({"cpu": 60}, 70, {"ml": {"cpu": 20}}), None, {"share_": "50", "share_ml": "20"}, id="the lowest"
        ),
        pytest.param(
            Ceilings(), TEN, {"nodes": "10", "total_cpu": "80", "total_nvidia.com_gpu": "8"}, id="what there is"
        ),
        pytest.param(
            Ceilings(), TEN, {"nodes_": "5", "amount__cpu": "40", "amount__memory": "160Gi"}, id="half of everything"
        ),
        pytest.param(Ceilings({"cpu": 60}, {"cpu": 55}), CPU, {"nodes_": "5", "amount__cpu": "44"}, id="of a queue"),
        pytest.param(Ceilings({"cpu": 60}, 55), CPU, {"room_": "6", "room__cpu": "48"}, id="of all together"),
        pytest.param(Ceilings(queues={"ml": 20}), CPU, {"nodes_ml": "2", "amount_ml_cpu": "16"}, id="one of its own"),
        pytest.param(Ceilings(cluster=0), CPU, {"room_": "0", "room__cpu": "0"}, id="nobody may have anything"),
    ],
)
def test_ceilings_are_shown(ceilings: Ceilings, cluster: Cluster | None, shown: dict[str, str]) -> None:
    found = parameters(ceilings, cluster)
    assert found | shown == found


@pytest.mark.parametrize(
    ("promises", "shown"),
    [
        pytest.param([], {}, id="nobody was promised anything"),
        pytest.param(
            [promise("a", "24")],
            {"priorities": "0", "room_0": "2", "room_0_cpu": "16", "left_a": "5", "left_a_cpu": "40"},
            id="a newcomer gets what is left, who has it all that was left to it",
        ),
        pytest.param(
            [promise("a", "24"), promise("b", "10")],
            {"room_0_cpu": "6", "left_a_cpu": "30", "left_b_cpu": "16"},
            id="two",
        ),
        pytest.param(
            [promise("a", "24"), promise("b", "10", 7)],
            {"priorities": "0,7", "room_0_cpu": "6", "room_7_cpu": "30", "left_a_cpu": "30", "left_b_cpu": "40"},
            id="whoever comes first by priority is not asked about those behind",
        ),
        pytest.param([promise("a", "60")], {"room_0": "0", "room_0_cpu": "0"}, id="more than the ceiling"),
        pytest.param([promise(LONG, "24")], {"room_0_cpu": "16"}, id="a name too long for keys of its own"),
    ],
)
def test_what_is_left_of_the_ceiling_of_all_guarantees(promises: list[Promise], shown: dict[str, str]) -> None:
    found = parameters(Ceilings(), CPU, promises)
    assert found | shown == found
    assert ("priorities" in found) == bool(promises) and not any(LONG in key for key in found)


def test_what_is_too_long_for_a_key_or_what_no_node_has_is_not_shown() -> None:
    cluster = Cluster(1, {"cpu": 1000, f"example.org/{'x' * 253}": 9, "example.org/none": 0})
    assert {key.rpartition("_")[2] for key in parameters(Ceilings(), cluster)} == {"", "cpu", "nodes"}


def test_what_is_too_much_for_a_config_map_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 10)
    assert parameters(Ceilings(), CPU, [promise("a", "24")]) == parameters(Ceilings(), CPU)


# --- the door and the condition go by one rule ------------------------------------------------------------------------

PERCENT = st.integers(0, 100)
CORES = st.integers(0, 60_000)


@given(
    ceilings=st.builds(Ceilings, cluster=PERCENT, queue=PERCENT),
    nodes=st.integers(1, 13),
    cpu=st.integers(1, 60_000),
    accepted=st.lists(st.tuples(st.integers(0, 2), CORES), max_size=3),
    asked=st.one_of(CORES, st.floats(0, 1).map(lambda value: round(value, 3))),
    priority=st.integers(0, 3),
)
def test_what_is_refused_is_what_would_be_rejected(
    ceilings: Ceilings, nodes: int, cpu: int, accepted: list[tuple[int, int]], asked: int | float, priority: int
) -> None:
    cluster = Cluster(nodes, {"cpu": cpu})
    promises = [Promise(f"q{number}", *one) for number, one in enumerate((p, {"cpu": c}) for p, c in accepted)]
    guarantee = {"percentage": {"value": asked}} if isinstance(asked, float) else {"resource": {"cpu": f"{asked}m"}}
    request = request_of(queue("new", guarantee=guarantee), cluster)
    taken = sum(each for one, each in accepted if one >= priority)
    if isinstance(request, Asked):
        rejection = over_ceiling("new", request, cluster, ceilings, {"cpu": taken})
        assert _refusal(parameters(ceilings, cluster, promises), request, priority) == (rejection and rejection.reason)


def _refusal(shown: dict[str, str], request: Asked, priority: int) -> Reason | None:
    """As the policy has it."""
    before = [each for each in shown.get("priorities", "").split(",") if each and int(each) >= priority]
    room = f"room_{before[0] if before else ''}"
    for reason, nodes, amounts in (
        (Reason.ABOVE_QUEUE_CEILING, "nodes_", "amount__cpu"),
        (Reason.ABOVE_CLUSTER_CEILING, room, f"{room}_cpu"),
    ):
        limit = int(shown[nodes]) if request.nodes is not None else amount("cpu", shown[amounts])
        if (request.nodes if request.nodes is not None else request.amounts.get("cpu", 0)) > limit:
            return reason
    return None
