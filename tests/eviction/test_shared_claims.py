from __future__ import annotations

from typing import Any

import pytest

from restow.eviction.shared_claims import SharedClaims
from restow.model.objects import Pod
from tests.eviction.eviction_objects import pod


def user(name: str, *claims: str, **more: Any) -> Pod:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return pod(name, volumes=volumes, **more)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], {}),
        ([user("b", "data")], {"data": "b"}),
        ([user("c", "data", "logs"), user("b", "data")], {"data": "b", "logs": "c"}),
        ([user("b", "tmp")], {}),
        ([user("b", "data", nodeName="n2")], {}),
        ([user("b", "data", nodeName=None)], {}),
        ([user("b", "data", namespace="elsewhere")], {}),
        ([user("b", "data", phase="Succeeded")], {}),
        ([user("b", "data", deletionTimestamp="2026-01-01T00:00:00Z")], {}),
        ([user("b", "data", owner="")], {"data": "b"}),
    ],
    ids=[
        "no other pod",
        "another one",
        "several",
        "of another claim",
        "on another node",
        "on no node yet",
        "a namesake elsewhere",
        "one that is over",
        "one that leaves",
        "a bare one",
    ],
)
def test_claims_that_other_pods_on_the_node_use(others: list[Pod], expected: dict[str, str]) -> None:
    sharing, moving = SharedClaims(), user("a", "data", "logs")
    for one in (moving, *others):
        sharing.put_pod(one)
    assert sharing.shared_with(moving) == expected


def test_shared_claims_follow_the_events_of_pods() -> None:
    sharing, moving = SharedClaims(), user("a", "data")
    sharing.put_pod(user("b", "data", nodeName=None))
    sharing.put_pod(user("b", "data"))
    assert sharing.shared_with(moving) == {"data": "b"}
    sharing.put_pod(user("b", "data", phase="Failed"))
    assert sharing.shared_with(moving) == {}
    sharing.put_pod(user("c", "data"))
    sharing.drop_pod("c")
    sharing.drop_pod("never-seen")
    assert sharing.shared_with(moving) == {} and not sharing._users and not sharing._uses
