"""Which taints keep which pods away."""

from __future__ import annotations

import pytest

from restow.model.objects import Taint, Toleration
from restow.model.taints import PREFER_NO_SCHEDULE, UNSCHEDULABLE, tolerates_taint, untolerated_taint

GPU = Taint(key="gpu", value="yes", effect="NoSchedule")
AGED = Taint(key="age", value="5", effect="NoExecute")


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        pytest.param(Toleration(key="gpu", value="yes"), GPU, True, id="equal is the default operator"),
        pytest.param(Toleration(key="gpu", operator="Equal", value="no"), GPU, False, id="another value"),
        pytest.param(Toleration(key="gpu", operator="Exists"), GPU, True, id="exists ignores the value"),
        pytest.param(Toleration(key="cpu", operator="Exists"), GPU, False, id="another key"),
        pytest.param(Toleration(operator="Exists"), GPU, True, id="no key and Exists tolerates everything"),
        pytest.param(Toleration(value="yes"), GPU, True, id="no key compares the value only"),
        pytest.param(Toleration(operator="Exists", effect="NoExecute"), GPU, False, id="another effect"),
        pytest.param(Toleration(key="gpu", operator="Exists", effect="NoSchedule"), GPU, True, id="same effect"),
        pytest.param(Toleration(key="gpu", operator="Maybe"), GPU, False, id="unknown operator"),
        pytest.param(Toleration(key="age", operator="Gt", value="3"), AGED, False, id="comparisons are off by default"),
    ],
)
def test_toleration_of_a_single_taint(toleration: Toleration, taint: Taint, expected: bool) -> None:
    assert tolerates_taint(toleration, taint) is expected


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [("Gt", "3", True), ("Gt", "5", False), ("Lt", "9", True), ("Lt", "x", False), ("Lt", "09", False)],
)
def test_comparisons_when_turned_on(operator: str, value: str, expected: bool) -> None:
    assert tolerates_taint(Toleration(key="age", operator=operator, value=value), AGED, comparisons=True) is expected


def test_untolerated_taints_keep_the_order_of_the_node() -> None:
    soft = Taint(key="soft", effect=PREFER_NO_SCHEDULE)
    taints = [AGED, soft, GPU, UNSCHEDULABLE]
    assert untolerated_taint(taints, [Toleration(key="gpu", operator="Exists")]) == [AGED, UNSCHEDULABLE]
    assert untolerated_taint(taints, None, [PREFER_NO_SCHEDULE]) == [soft]
    assert untolerated_taint(None, None) == []
