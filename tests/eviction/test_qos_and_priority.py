from __future__ import annotations

import pytest

from restow.eviction.costs import eviction_cost
from restow.eviction.qos_and_priority import (
    KoordinatorPriorityClass,
    KoordinatorQos,
    koordinator_priority_class,
    koordinator_qos,
)
from restow.model.objects import Pod
from tests.eviction.eviction_objects import pod


@pytest.mark.parametrize(
    ("text", "cost"),
    [("5", 5), ("-5", -5), ("2147483647", 2**31 - 1), ("2147483648", 0), ("+10", 0), ("008", 0), ("", 0), ("x", 0)],
)
def test_an_eviction_cost_counts_only_in_canonical_spelling(text: str, cost: int) -> None:
    assert eviction_cost(pod(annotations={"scheduling.koordinator.sh/eviction-cost": text})) == cost


REQUESTS = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
QOS = {
    "its label": (pod(labels={"koordinator.sh/qosClass": "LSR"}), KoordinatorQos.LSR),
    "best effort without one": (pod(containers=[{"name": "c"}]), KoordinatorQos.BE),
    "requests without one": (pod(containers=REQUESTS), KoordinatorQos.LS),
    "what the status says": (pod(containers=REQUESTS, qosClass="BestEffort"), KoordinatorQos.BE),
    "an unknown label is none": (pod(labels={"koordinator.sh/qosClass": "?"}, containers=REQUESTS), KoordinatorQos.LS),
}


@pytest.mark.parametrize("case", QOS.values(), ids=QOS)
def test_koordinator_qos_of_a_pod(case: tuple[Pod, KoordinatorQos]) -> None:
    assert koordinator_qos(case[0]) is case[1]


def test_koordinator_qos_values_ascend() -> None:
    assert KoordinatorQos.BE < KoordinatorQos.LS < KoordinatorQos.LSR < KoordinatorQos.LSE


CLASSES = {
    "its label": (
        pod(labels={"koordinator.sh/priority-class": "koord-mid"}, priority=9500),
        KoordinatorPriorityClass.MID,
    ),
    "its band": (pod(priority=5500), KoordinatorPriorityClass.BATCH),
    "its QoS": (pod(labels={"koordinator.sh/qosClass": "LS"}), KoordinatorPriorityClass.PROD),
    "nothing": (pod(priority=100), KoordinatorPriorityClass.NONE),
}


@pytest.mark.parametrize("case", CLASSES.values(), ids=CLASSES)
def test_koordinator_priority_class_of_a_pod(case: tuple[Pod, KoordinatorPriorityClass]) -> None:
    assert koordinator_priority_class(case[0]) is case[1]
