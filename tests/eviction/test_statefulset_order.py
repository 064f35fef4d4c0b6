from __future__ import annotations

from typing import Any

import pytest

from restow.eviction.protections import PodContext, Protections, eviction_refusal, lasting_eviction_refusal
from restow.eviction.statefulset_order import waits_for_order
from restow.eviction.workloads import Workloads
from restow.model.objects import Pod, StatefulSet
from restow.model.wire import convert_document
from tests.eviction.eviction_objects import pod


def stateful_set(**spec: Any) -> StatefulSet:
    return convert_document(StatefulSet, {"metadata": {"name": "db", "namespace": "shop", "uid": "db"}, "spec": spec})


def member(number: int | str, **more: Any) -> Pod:
    return pod(f"db-{number}", owner="StatefulSet db", **more)


WELL = [member(number) for number in range(4)]
BEHIND_THE_FIRST = "StatefulSet shop/db would not recreate it while db-0 is not Ready"


@pytest.mark.parametrize(
    ("owner", "moving", "others", "expected"),
    [
        (stateful_set(), member(3), WELL, ""),
        (stateful_set(), member(3), [member(0, ready=False), *WELL[1:]], BEHIND_THE_FIRST),
        (stateful_set(), member(3), WELL[1:], BEHIND_THE_FIRST),
        (stateful_set(), member(3), [member(0, deletionTimestamp="2026-01-01T00:00:00Z"), *WELL[1:]], BEHIND_THE_FIRST),
        (stateful_set(), member(3), [member(0, phase="Pending"), *WELL[1:]], BEHIND_THE_FIRST),
        (stateful_set(podManagementPolicy="OrderedReady"), member(1), WELL[1:], BEHIND_THE_FIRST),
        (stateful_set(podManagementPolicy="Parallel"), member(3), WELL[1:], ""),
        (stateful_set(), member(0, ready=False), WELL[1:], ""),
        (stateful_set(), member(1), [*WELL[:2], member(2, ready=False), member(3, ready=False)], ""),
        (stateful_set(ordinals={"start": 1}), member(3), WELL[1:], ""),
        (
            stateful_set(ordinals={"start": 1}),
            member(3),
            [WELL[0], WELL[3]],
            "StatefulSet shop/db would not recreate it while db-1 and 1 more are not Ready",
        ),
        (stateful_set(), member("x"), [], ""),
        (stateful_set(), pod("other-3", owner="StatefulSet db"), [], ""),
    ],
    ids=[
        "all are well",
        "the first is broken",
        "the first is gone",
        "the first leaves",
        "the first waits",
        "in order, as it says",
        "all at once",
        "the first itself",
        "those after it are broken",
        "no ordinal is below the start",
        "two of those from the start on",
        "not one of an order",
        "of another name",
    ],
)
def test_lower_ordinals_that_keep_a_set_from_recreating_a_pod(
    owner: StatefulSet, moving: Pod, others: list[Pod], expected: str
) -> None:
    assert waits_for_order(owner, moving, others) == expected


def test_only_pods_of_a_stateful_set_wait_for_order() -> None:
    workloads = Workloads()
    workloads.put_owner(stateful_set())
    for one in WELL[1:]:
        workloads.put_pod(one)
    assert workloads.waits_for_order(WELL[3]) == BEHIND_THE_FIRST
    assert workloads.waits_for_order(pod("db-3")) == workloads.waits_for_order(pod("db-3", owner="")) == ""
    workloads.put_pod(WELL[0])
    assert workloads.waits_for_order(WELL[3]) == ""


def test_order_refuses_a_pod_for_planning_and_not_for_good() -> None:
    around = PodContext(now=0.0, waits_for_order=BEHIND_THE_FIRST)
    assert eviction_refusal(member(3), Protections(), around) == BEHIND_THE_FIRST
    assert lasting_eviction_refusal(member(3), Protections(), around) is None
