"""The PodGroup cache: the members of gangs, the pods of queues, and what these pods use."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import ObjectMeta, PriorityClass
from restow.scheduling.pod_group_cache import PodGroupCache
from tests.scheduling.core.session_fixture import task


@pytest.mark.parametrize(
    ("before", "after", "used"),
    [
        pytest.param({"queue": "a"}, {"queue": "b"}, {"a": 0, "b": 1000}, id="it was put into another queue"),
        pytest.param({}, {"requests": {"cpu": "3"}}, {"default": 3000}, id="it was resized"),
    ],
)
def test_queue_usage_follows_a_running_pod_that_changes_and_goes(
    before: dict[str, Any], after: dict[str, Any], used: dict[str, int]
) -> None:
    pod_groups = PodGroupCache()
    assert pod_groups.usage() == {}
    pod_groups.apply_pod(task("t", on="n0", **before))
    pod_groups.apply_pod(task("t", on="n0", **after))
    assert {queue: usage["cpu"] for queue, usage in pod_groups.usage().items()} == used
    pod_groups.remove_pod(task("t", on="n0", **after))
    assert not any(amount for usage in pod_groups.usage().values() for amount in usage.values())


@pytest.mark.parametrize("later", ["other", None])
def test_pod_that_left_a_gang_is_no_member_of_it(later: str | None) -> None:
    pod_groups = PodGroupCache()
    pod_groups.apply_pod(task("t", "first"))
    pod_groups.apply_pod(task("t", later))
    assert pod_groups.members(("default", "first")) == []
    pod_groups.remove_pod(task("t", later))
    assert pod_groups.members(("default", "other")) == []


def test_priority_class_that_is_no_longer_the_default_is_not_used_as_default() -> None:
    pod_groups = PodGroupCache()
    default = PriorityClass(metadata=ObjectMeta(name="usual"), value=5, global_default=True)
    pod_groups.priority_classes.apply(default)
    assert pod_groups.priority_classes.default_name == "usual"
    pod_groups.priority_classes.apply(replace(default, global_default=False))
    assert pod_groups.priority_classes.default_name == ""
