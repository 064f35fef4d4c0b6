"""The parameters by which the API server refuses guarantees: the limits of conditions, for every queue that may
come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.guarantees import ClusterCapacity, GuaranteeRequest, RejectionReason, read_guarantee
from restow.model.quantity import parse_amount
from restow.queues import admission_parameters as module
from restow.queues.admission_parameters import AcceptedGuarantee, admission_parameters
from restow.queues.guarantee_ceilings import GuaranteeCeilings, ceiling_rejection
from tests.queues.node_capacity_fixture import queue, vector

TEN = ClusterCapacity(10, vector(cpu="80", memory="320Gi", **{"nvidia.com/gpu": "8"}))
CPU = ClusterCapacity(10, vector(cpu="80"))
LONG = "q" * 200


def accepted_guarantee(name: str, cpu: str, priority: int = 0) -> AcceptedGuarantee:
    return AcceptedGuarantee(name, priority, vector(cpu=cpu))


@pytest.mark.parametrize(
    ("ceilings", "cluster", "shown"),
    [
        pytest.param(GuaranteeCeilings(), None, {"share_": "50"}, id="a cluster whose nodes were not counted"),
        pytest.param(
            GuaranteeCeilings({"cpu": 60}, 70, {"ml": {"cpu": 20}}),
            None,
            {"share_": "50", "share_ml": "20"},
            id="the lowest",
        ),
        pytest.param(
            GuaranteeCeilings(),
            TEN,
            {"nodes": "10", "total_cpu": "80", "total_nvidia.com_gpu": "8"},
            id="what there is",
        ),
        pytest.param(
            GuaranteeCeilings(),
            TEN,
            {"nodes_": "5", "amount__cpu": "40", "amount__memory": "160Gi"},
            id="half of everything",
        ),
        pytest.param(
            GuaranteeCeilings({"cpu": 60}, {"cpu": 55}), CPU, {"nodes_": "5", "amount__cpu": "44"}, id="of a queue"
        ),
        pytest.param(GuaranteeCeilings({"cpu": 60}, 55), CPU, {"room_": "6", "room__cpu": "48"}, id="of all together"),
        pytest.param(
            GuaranteeCeilings(by_queue={"ml": 20}), CPU, {"nodes_ml": "2", "amount_ml_cpu": "16"}, id="one of its own"
        ),
        pytest.param(
            GuaranteeCeilings(all_queues=0),
            CPU,
            {"room_": "0", "room__cpu": "0"},
            id="a ceiling of zero leaves nothing",
        ),
    ],
)
def test_admission_parameters_contain_ceilings(
    ceilings: GuaranteeCeilings, cluster: ClusterCapacity | None, shown: dict[str, str]
) -> None:
    found = admission_parameters(ceilings, cluster)
    assert found | shown == found


@pytest.mark.parametrize(
    ("accepted_guarantees", "shown"),
    [
        pytest.param([], {}, id="no guarantee is accepted"),
        pytest.param(
            [accepted_guarantee("a", "24")],
            {"priorities": "0", "room_0": "2", "room_0_cpu": "16", "left_a": "5", "left_a_cpu": "40"},
            id="a newcomer gets what is left, an accepted queue its own amounts, too",
        ),
        pytest.param(
            [accepted_guarantee("a", "24"), accepted_guarantee("b", "10")],
            {"room_0_cpu": "6", "left_a_cpu": "30", "left_b_cpu": "16"},
            id="two",
        ),
        pytest.param(
            [accepted_guarantee("a", "24"), accepted_guarantee("b", "10", 7)],
            {"priorities": "0,7", "room_0_cpu": "6", "room_7_cpu": "30", "left_a_cpu": "30", "left_b_cpu": "40"},
            id="a queue of higher priority is not limited by those of lower priority",
        ),
        pytest.param([accepted_guarantee("a", "60")], {"room_0": "0", "room_0_cpu": "0"}, id="more than the ceiling"),
        pytest.param([accepted_guarantee(LONG, "24")], {"room_0_cpu": "16"}, id="a name too long for keys of its own"),
    ],
)
def test_admission_parameters_contain_what_accepted_guarantees_leave(
    accepted_guarantees: list[AcceptedGuarantee], shown: dict[str, str]
) -> None:
    found = admission_parameters(GuaranteeCeilings(), CPU, accepted_guarantees)
    assert found | shown == found
    assert ("priorities" in found) == bool(accepted_guarantees) and not any(LONG in key for key in found)


def test_admission_parameters_omit_long_keys_and_resources_of_no_node() -> None:
    cluster = ClusterCapacity(1, {"cpu": 1000, f"example.org/{'x' * 253}": 9, "example.org/none": 0})
    assert {key.rpartition("_")[2] for key in admission_parameters(GuaranteeCeilings(), cluster)} == {
        "",
        "cpu",
        "nodes",
    }


def test_admission_parameters_omit_what_a_config_map_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES_OF_ACCEPTED", 10)
    assert admission_parameters(GuaranteeCeilings(), CPU, [accepted_guarantee("a", "24")]) == admission_parameters(
        GuaranteeCeilings(), CPU
    )


# --- the door and the condition go by one rule ------------------------------------------------------------------------

PERCENT = st.integers(0, 100)
CORES = st.integers(0, 60_000)


@given(
    ceilings=st.builds(GuaranteeCeilings, all_queues=PERCENT, any_queue=PERCENT),
    nodes=st.integers(1, 13),
    cpu=st.integers(1, 60_000),
    accepted=st.lists(st.tuples(st.integers(0, 2), CORES), max_size=3),
    asked=st.one_of(CORES, st.floats(0, 1).map(lambda value: round(value, 3))),
    priority=st.integers(0, 3),
)
def test_admission_parameters_refuse_what_the_condition_would_reject(
    ceilings: GuaranteeCeilings,
    nodes: int,
    cpu: int,
    accepted: list[tuple[int, int]],
    asked: int | float,
    priority: int,
) -> None:
    cluster = ClusterCapacity(nodes, {"cpu": cpu})
    accepted_guarantees = [
        AcceptedGuarantee(f"q{number}", *one) for number, one in enumerate((p, {"cpu": c}) for p, c in accepted)
    ]
    guarantee = {"percentage": {"value": asked}} if isinstance(asked, float) else {"resource": {"cpu": f"{asked}m"}}
    request = read_guarantee(queue("new", guarantee=guarantee), cluster)
    taken = sum(each for one, each in accepted if one >= priority)
    if isinstance(request, GuaranteeRequest):
        rejection = ceiling_rejection("new", request, cluster, ceilings, {"cpu": taken})
        assert _refusal(admission_parameters(ceilings, cluster, accepted_guarantees), request, priority) == (
            rejection and rejection.reason
        )


def _refusal(shown: dict[str, str], request: GuaranteeRequest, priority: int) -> RejectionReason | None:
    """As the policy has it."""
    before = [each for each in shown.get("priorities", "").split(",") if each and int(each) >= priority]
    room = f"room_{before[0] if before else ''}"
    for reason, nodes, amounts in (
        (RejectionReason.ABOVE_QUEUE_CEILING, "nodes_", "amount__cpu"),
        (RejectionReason.ABOVE_CLUSTER_CEILING, room, f"{room}_cpu"),
    ):
        limit = int(shown[nodes]) if request.nodes is not None else parse_amount("cpu", shown[amounts])
        if (request.nodes if request.nodes is not None else request.amounts.get("cpu", 0)) > limit:
            return reason
    return None
