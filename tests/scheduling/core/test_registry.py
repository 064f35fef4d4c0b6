"""Configuration: the default profile, other people's plugins, and every mistake at once."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import pytest

from restow.model.cluster import Mask, Which
from restow.model.objects import Pod
from restow.model.wire import WireError
from restow.running.plugins import scheduling_plugins
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.backfill import backfill
from restow.scheduling.actions.enqueue import admit_all, enqueue
from restow.scheduling.actions.reserve import take_reserved_seats
from restow.scheduling.cluster_events import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from restow.scheduling.framework import Cycle, FilterPlugin, QueueSortPlugin, Refusal
from restow.scheduling.plugins.refusals import refusals_of
from restow.scheduling.registry import Profile, read_profile
from tests.model.cluster.builders import pod
from tests.narrowing import present


class Foreign(FilterPlugin):
    name: ClassVar[str] = "Foreign"

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return cycle.snapshot.nodes.present[rows]

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        return refusals_of("never", ~self.filter(cycle, rows))

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(EventResource.QUEUE)]


class ShortestFirst(QueueSortPlugin):
    name: ClassVar[str] = "ShortestFirst"

    def sort_key(self, pod: Pod) -> int:
        return len(pod.metadata.name)


class LongestFirst(ShortestFirst):
    name: ClassVar[str] = "LongestFirst"

    def sort_key(self, pod: Pod) -> int:
        return -len(pod.metadata.name)


_OUTDATED = {"name": "CountsResourcesUnderTheOldName", "demanded": lambda self, cycle: ()}
CountsResourcesUnderTheOldName = type("CountsResourcesUnderTheOldName", (Foreign,), _OUTDATED)


class SortsUnderTheOldName(QueueSortPlugin):
    name: ClassVar[str] = "SortsUnderTheOldName"

    def key(self, pod: Pod) -> int:
        return 0


OTHERS = {
    name: EntryPoint(name, f"{__name__}:{attribute}", "restow.plugins")
    for name, attribute in {
        "Foreign": "Foreign",
        "Misnamed": "Foreign",
        "Gone": "Nothing",
        "CountsResourcesUnderTheOldName": "CountsResourcesUnderTheOldName",
        "SortsUnderTheOldName": "SortsUnderTheOldName",
        "Number": "OTHERS",
        "ShortestFirst": "ShortestFirst",
        "LongestFirst": "LongestFirst",
    }.items()
}


def names(profile: Profile) -> list[str]:
    return [plugin.name for plugin in profile.engine.plugins]


def plugins(*entries: Mapping[str, Any]) -> dict[str, Any]:
    return {"tiers": [{"plugins": list(entries)}]}


def test_default_profile_has_kube_schedulers_plugins_and_weights() -> None:
    profile = read_profile({})
    upstream = "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit PodTopologySpread"
    assert [name for name in names(profile) if name in upstream.split()] == upstream.split()
    assert profile.actions == (enqueue, take_reserved_seats, allocate, backfill)
    assert profile.scheduler_names == {"restow"}
    assert [gate.name for gate in profile.pre_enqueue] == ["SchedulingGates"]


def test_listed_plugin_is_switched_off_and_weighted_by_name() -> None:
    profile = read_profile(plugins({"name": "ImageLocality", "enabled": False}, {"name": "NodeAffinity", "weight": 7}))
    assert "ImageLocality" not in names(profile)
    assert {plugin.name: weight for plugin, weight in profile.engine.scores}["NodeAffinity"] == 7


def test_listed_plugin_of_another_package_runs_after_the_built_in_ones() -> None:
    assert "Foreign" not in names(read_profile({}, OTHERS))
    profile = read_profile(plugins({"name": "Foreign"}), OTHERS)
    assert names(profile)[-1] == "Foreign"
    assert profile.hints.is_worth_requeuing(pod("p"), ["Foreign"], ClusterEvent(EventResource.QUEUE, ActionType.ADDED))
    assert not profile.hints.is_worth_requeuing(
        pod("p"), ["Foreign"], ClusterEvent(EventResource.NODE, ActionType.ADDED)
    )


def test_two_queue_sort_plugins_are_refused() -> None:
    assert read_profile({}).engine.sort is None
    assert present(read_profile(plugins({"name": "LongestFirst"}), OTHERS).engine.sort).name == "LongestFirst"
    with pytest.raises(WireError, match="one plugin at most may sort the queue, ShortestFirst and LongestFirst do"):
        read_profile(plugins({"name": "ShortestFirst"}, {"name": "LongestFirst"}), OTHERS)


def test_actions_without_enqueue_admit_all_jobs() -> None:
    assert read_profile({"actions": ["allocate"]}).actions == (admit_all, allocate)


@pytest.mark.parametrize(
    ("section", "problems"),
    [
        pytest.param({"plugin": 1}, ["plugin: unknown"], id="an unknown field"),
        pytest.param({"actions": "enqueue, dance"}, ["actions: no action is called 'dance'"], id="an unknown action"),
        pytest.param({"actions": ["allocate", "allocate"]}, ["actions[1]: allocate is listed twice"], id="twice"),
        pytest.param({"schedulerNames": []}, ["schedulerNames: at least one"], id="no scheduler name"),
        pytest.param(plugins({"name": "Nope"}), ["tiers[0].plugins[0].name: no plugin is called 'Nope'"], id="no such"),
        pytest.param(
            plugins({"name": "NodeName", "weight": 0}, {"name": "NodeName"}),
            ["tiers[0].plugins[0].weight: must be from 1", "tiers[0].plugins[1].name: NodeName is listed twice"],
            id="all mistakes at once",
        ),
        pytest.param(
            plugins({"name": "NodeName", "arguments": {"a": 1}}),
            ["tiers[0].plugins[0].arguments: a: NodeName takes no such argument"],
            id="wrong arguments",
        ),
        pytest.param(plugins({"name": "Gone"}), ["tiers[0].plugins[0].name: Gone cannot be loaded"], id="broken"),
        pytest.param(plugins({"name": "Number"}), ["tiers[0].plugins[0].name: tests.scheduling.core"], id="no plugin"),
        pytest.param(
            plugins({"name": "CountsResourcesUnderTheOldName"}),
            ["defines demanded (now counted_resources of ResourceFilter) of an earlier plugin interface"],
            id="a member of an earlier interface",
        ),
        pytest.param(
            plugins({"name": "SortsUnderTheOldName"}),
            ["tiers[0].plugins[0].name: SortsUnderTheOldName does not define sort_key"],
            id="an abstract method",
        ),
        pytest.param(plugins({"name": "Misnamed"}), ["is not a plugin called Misnamed"], id="another name"),
    ],
)
def test_mistakes_in_the_scheduler_section_are_reported_with_their_paths(
    section: dict[str, Any], problems: list[str]
) -> None:
    with pytest.raises(WireError) as raised:
        read_profile(section, OTHERS)
    messages = [str(problem) for problem in raised.value.problems]
    assert len(messages) == len(problems)
    assert all(expected in message for expected, message in zip(problems, messages, strict=True))


def test_installed_plugin_is_found_by_its_entry_point() -> None:
    assert isinstance(scheduling_plugins(), dict)
