from __future__ import annotations

import pytest

from restow.eviction.costs import eviction_cost
from restow.eviction.qos_and_priority import PriorityClass, Qos, priority_class, qos
from restow.model.objects import Pod
from tests.eviction.objects import pod


@pytest.mark.parametrize(
    ("text", "cost"),
    [("5", 5), ("-5", -5), ("2147483647", 2**31 - 1), ("2147483648", 0), ("+10", 0), ("008", 0), ("", 0), ("x", 0)],
)
def test_eviction_costs_have_one_spelling(text: str, cost: int) -> None:
    assert eviction_cost(pod(annotations={"scheduling.koordinator.sh/eviction-cost": text})) == cost


REQUESTS = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
QOS = {
    "its label": (pod(labels={"koordinator.sh/qosClass": "LSR"}), Qos.LSR),
    "best effort without one": (pod(containers=[{"name": "c"}]), Qos.BE),
    "requests without one": (pod(containers=REQUESTS), Qos.LS),
    "what the status says": (pod(containers=REQUESTS, qosClass="BestEffort"), Qos.BE),
    "an unknown label is none": (pod(labels={"koordinator.sh/qosClass": "?"}, containers=REQUESTS), Qos.LS),
}


@pytest.mark.parametrize("case", QOS.values(), ids=QOS)
def test_quality_of_service(case: tuple[Pod, Qos]) -> None:
    assert qos(case[0]) is case[1]


def test_qualities_ascend() -> None:
    assert Qos.BE < Qos.LS < Qos.LSR < Qos.LSE


CLASSES = {
    "its label": (pod(labels={"koordinator.sh/priority-class": "koord-mid"}, priority=9500), PriorityClass.MID),
    "its band": (pod(priority=5500), PriorityClass.BATCH),
    "its QoS": (pod(labels={"koordinator.sh/qosClass": "LS"}), PriorityClass.PROD),
    "nothing": (pod(priority=100), PriorityClass.NONE),
}


@pytest.mark.parametrize("case", CLASSES.values(), ids=CLASSES)
def test_priority_class(case: tuple[Pod, PriorityClass]) -> None:
    assert priority_class(case[0]) is case[1]
