"""Plugins that raise or return nonsense for some pods: the status of these pods names the plugin, and all other pods
are scheduled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.model.objects import Pod
from restow.scheduling.accelerated import ResourceFilter, RoomOnly
from restow.scheduling.framework import (
    SKIP,
    SUCCESS,
    BindPlugin,
    Cycle,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    Reach,
    Refusal,
    ReservePlugin,
    ScorePlugin,
    unschedulable,
    wait,
)
from tests.control.scheduler_cluster import condition_of_pod, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod


class Odd(Plugin):
    """Answers as it is told to where a pod's name says so, and properly elsewhere."""

    name: ClassVar[str] = "Odd"

    def __init__(self, **answers: Callable[[], Any]) -> None:
        super().__init__()
        self._answers = answers

    def say(self, point: str, pod: Pod, proper: Any) -> Any:
        return self._answers[point]() if point in self._answers and "odd" in pod.metadata.name else proper


class OddFilter(Odd, FilterPlugin, ResourceFilter):
    def pre_filter(self, cycle: Cycle) -> Any:
        return self.say("pre_filter", cycle.pod, SUCCESS)

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        return self.say("filter", cycle.pod, cycle.snapshot.nodes.present[rows])

    def refusals(self, cycle: Cycle, rows: Any) -> Any:
        return self.say("refusals", cycle.pod, [])

    def counted_resources(self, cycle: Cycle) -> Any:
        return self.say("counted_resources", cycle.pod, ())


class OddClusterFilter(OddFilter):
    reach: ClassVar[Reach] = Reach.CLUSTER


class OddRoomFilter(OddFilter, RoomOnly):
    """Reads nothing of a node but its room."""


class OddScore(Odd, ScorePlugin):
    def pre_score(self, cycle: Cycle) -> Any:
        return self.say("pre_score", cycle.pod, SUCCESS)

    def score(self, cycle: Cycle, rows: Any) -> Any:
        return self.say("score", cycle.pod, np.ones(len(cycle.snapshot.nodes.present[rows]), np.int64))


class OddNormalized(OddScore):
    def normalize_score(self, cycle: Cycle, raw: Any) -> Any:
        return self.say("normalize_score", cycle.pod, raw)


class OddGate(Odd, PreEnqueuePlugin):
    def pre_enqueue(self, pod: Pod) -> Any:
        return self.say("pre_enqueue", pod, SUCCESS)


class OddOrder(Odd, QueueSortPlugin):
    def sort_key(self, pod: Pod) -> Any:
        return self.say("key", pod, 5)


class OddPostFilter(Odd, PostFilterPlugin):
    def post_filter(self, cycle: Cycle, refused: Mapping[str, Sequence[Refusal]]) -> Any:
        return self.say("post_filter", cycle.pod, (unschedulable("nothing to be done"), ""))


class OddReserve(Odd, ReservePlugin):
    def reserve(self, cycle: Cycle, node: str) -> Any:
        return self.say("reserve", cycle.pod, SUCCESS)

    def unreserve(self, cycle: Cycle, node: str) -> Any:
        return self.say("unreserve", cycle.pod, None)


class OddPermit(Odd, PermitPlugin):
    def permit(self, cycle: Cycle, node: str) -> Any:
        return self.say("permit", cycle.pod, (SUCCESS, 0.0))


class OddPreBind(Odd, PreBindPlugin):
    def pre_bind(self, cycle: Cycle, node: str) -> Any:
        return self.say("pre_bind", cycle.pod, ())

    def settled(self, cycle: Cycle, node: str) -> Any:
        return self.say("settled", cycle.pod, SUCCESS)


class OddBind(Odd, BindPlugin):
    def bind(self, cycle: Cycle, node: str) -> Any:
        return self.say("bind", cycle.pod, None)


def boom() -> Any:
    raise RuntimeError("boom")


def nothing() -> Any:
    return None


def none_at_all() -> Any:
    return np.zeros(3, np.bool_)


def scored(value: float) -> Callable[[], Any]:
    return lambda: np.full(3, value)


SEVEN: Any = 7
NO_MASK = "Odd does not say true or false of each of 3 rows"
LATE = "did not permit it in time"
BOOM, NO_CODE, NO_PAIR = "Odd: RuntimeError: boom", "no attribute 'code'", "cannot unpack"


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        pytest.param(OddFilter(pre_filter=boom), BOOM, id="PreFilter raises"),
        pytest.param(OddFilter(pre_filter=nothing), NO_CODE, id="PreFilter returns None"),
        pytest.param(OddFilter(pre_filter=lambda: "yes"), NO_CODE, id="PreFilter returns no verdict"),
        pytest.param(
            OddFilter(pre_filter=lambda: unschedulable("half \ud800")), "half ?", id="reason with half a character"
        ),
        pytest.param(OddFilter(pre_filter=lambda: unschedulable("no" * 99_999)), "nono", id="endless reason"),
        pytest.param(OddFilter(pre_filter=lambda: unschedulable(SEVEN)), "available: 7.", id="reason that is no text"),
        pytest.param(OddFilter(filter=boom), BOOM, id="Filter raises"),
        pytest.param(OddFilter(filter=nothing), NO_MASK, id="Filter returns None"),
        pytest.param(OddFilter(filter=lambda: np.ones(1, np.bool_)), NO_MASK, id="Filter mask lacks rows"),
        pytest.param(OddFilter(filter=lambda: np.array([0, 1, 1])), NO_MASK, id="Filter returns numbers"),
        pytest.param(OddRoomFilter(filter=lambda: np.array([0, 1, 1])), NO_MASK, id="row Filter returns numbers"),
        pytest.param(OddFilter(filter=none_at_all, refusals=boom), BOOM, id="reading refusals raises"),
        pytest.param(OddFilter(filter=none_at_all, refusals=nothing), "not iterable", id="refusals are None"),
        pytest.param(
            OddFilter(filter=none_at_all),
            "0/3 nodes are available: 3 node(s) that Odd refuses without a reason.",
            id="Filter refuses without a reason",
        ),
        pytest.param(OddFilter(counted_resources=nothing), "not iterable", id="counted resources are None"),
        pytest.param(OddClusterFilter(filter=boom), BOOM, id="cluster Filter raises"),
        pytest.param(OddClusterFilter(filter=nothing), "subscriptable", id="cluster Filter returns None"),
        pytest.param(OddScore(pre_score=nothing), NO_CODE, id="PreScore returns None"),
        pytest.param(OddScore(score=boom), BOOM, id="Score raises"),
        pytest.param(OddScore(score=scored(-1)), "Odd scored outside of 0..100", id="Score is negative"),
        pytest.param(OddScore(score=scored(2**62)), "Odd scored outside of 0..100", id="Score is enormous"),
        pytest.param(OddScore(score=scored(float("nan"))), "TypeError", id="Score is not a number"),
        pytest.param(
            OddNormalized(normalize_score=scored(101)),
            "Odd scored outside of 0..100",
            id="normalized score out of range",
        ),
        pytest.param(OddGate(pre_enqueue=boom), BOOM, id="PreEnqueue raises"),
        pytest.param(OddGate(pre_enqueue=nothing), NO_CODE, id="PreEnqueue returns None"),
        pytest.param(OddOrder(key=boom), BOOM, id="QueueSort raises"),
        pytest.param(OddOrder(key=lambda: "first"), "not supported between", id="QueueSort keys cannot be compared"),
        pytest.param(OddPostFilter(post_filter=boom), BOOM, id="PostFilter raises"),
        pytest.param(OddPostFilter(post_filter=nothing), NO_PAIR, id="PostFilter returns None"),
        pytest.param(
            OddPostFilter(post_filter=lambda: (SUCCESS, "gone")),
            "node gone, which",
            id="PostFilter names an unknown node",
        ),
        pytest.param(OddReserve(reserve=boom), BOOM, id="Reserve raises"),
        pytest.param(OddReserve(reserve=lambda: unschedulable("no"), unreserve=boom), BOOM, id="Unreserve raises"),
        pytest.param(OddPermit(permit=boom), BOOM, id="Permit raises"),
        pytest.param(OddPermit(permit=lambda: (wait(), "5")), "TypeError", id="Permit timeout is a text"),
        pytest.param(OddPermit(permit=lambda: (wait(), -5)), "Odd did not permit it", id="Permit timeout is negative"),
        pytest.param(OddPermit(permit=lambda: (wait(), float("nan"))), LATE, id="Permit timeout is not a number"),
        pytest.param(OddPreBind(pre_bind=boom), BOOM, id="PreBind raises"),
        pytest.param(OddPreBind(pre_bind=lambda: [7]), "AttributeError", id="PreBind writes nonsense"),
        pytest.param(OddPreBind(settled=boom), BOOM, id="settled raises"),
        pytest.param(OddPreBind(settled=lambda: SKIP), "Odd: Skip", id="settled returns Skip"),
        pytest.param(OddBind(bind=boom), BOOM, id="Bind raises"),
        pytest.param(OddBind(bind=list), "not bound to node", id="Bind writes nothing"),
    ],
)
@on_virtual_time
async def test_pod_with_a_broken_plugin_names_the_plugin_and_other_pods_are_scheduled(plugin: Odd, told: str) -> None:
    large = "9" if isinstance(plugin, OddPostFilter) else "1100m"
    async with scheduled_cluster(plugin, settings=SchedulerSettings(pre_bind_timeout=10.0)) as it:
        for name, cpu in (("a", "1"), ("odd", large), ("b", "1")):
            await it.create(kinds.POD, pod(name, cpu))
        await pass_time(15)
        await it.create(kinds.POD, pod("late", "1"))
        await pass_time(900 if told == LATE else 1)
        assert {name for name, where in (await nodes_by_pod(it)).items() if where} == {"a", "b", "late"}
        assert told in ((await condition_of_pod(it, "odd"))[2] or "")
