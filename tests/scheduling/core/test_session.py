"""Sessions: order, gangs whole or not at all, and what is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.cluster import Mask, Which
from restow.model.objects import Node, ObjectMeta, Pod, PodGroup, PodStatus, PriorityClass
from restow.scheduling.decisions import RefusePod
from restow.scheduling.framework import SUCCESS, Code, Cycle, Reach, Verdict, error, unschedulable
from tests.model.cluster.builders import node, pod
from tests.model.cluster.reading import everything, ledgers
from tests.narrowing import present
from tests.scheduling.core.doubles import Apart, Keeps, Says, Tries, nodes
from tests.scheduling.core.stories import Story, gang, queue, task

# --- single pods ------------------------------------------------------------------------------------------------------


def test_single_pods_go_one_by_one() -> None:
    story = Story(*nodes(2)).run(task("a"), task("b"), task("big", requests={"cpu": "9"}))
    assert story.placed == {"a": "n0", "b": "n1"}
    assert story.refused == {"big": "0/2 nodes are available: 2 Insufficient cpu."}


def test_priority_then_age_then_name() -> None:
    one_place = node("n0", {"cpu": "1", "pods": "9"})
    pods = [task("b", created="2026-01-01T00:00:00Z"), task("a", created="2026-01-02T00:00:00Z")]
    assert list(Story(one_place).run(*pods).placed) == ["b"]
    assert list(Story(one_place).run(*pods, task("vip", priority=5)).placed) == ["vip"]


def test_a_failed_reserve_is_told_and_leaves_nothing() -> None:
    story = Story(*nodes(1), plugins=[Keeps([], error("disk on fire"))])
    before = everything(story.snapshot)
    story.run(task("a"))
    (refusal,) = story.decisions
    assert isinstance(refusal, RefusePod)
    assert (refusal.code, refusal.message, refusal.plugins) == (Code.ERROR, "disk on fire", frozenset({"a"}))
    assert everything(story.snapshot) == before


class Broken(Keeps):
    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        raise ValueError("a bug")


@pytest.mark.parametrize("group", [None, "g"], ids=["a single pod", "a gang"])
def test_a_plugin_that_breaks_stops_nobody_else(group: str | None) -> None:
    story = Story(*nodes(2), groups=[gang("g", 1)], plugins=[Broken([])])
    before = everything(story.snapshot)
    story.run(task("a", group))
    (refusal,) = [one for one in story.decisions if isinstance(one, RefusePod)]
    assert (refusal.code, refusal.message) == (Code.ERROR, "a: ValueError: a bug")
    assert everything(story.snapshot) == before


def test_room_is_kept_for_a_pod_that_postfilter_nominates() -> None:
    running = [task("r", requests={"cpu": "3"}, on="n0")]
    story = Story(*nodes(1), running=running, plugins=[Tries(SUCCESS, "n0")])
    before = everything(story.snapshot)
    story.run(task("vip", requests={"cpu": "2"}, priority=9), task("small"))
    assert story.nominated == {"vip": "n0", "small": "n0"}
    assert set(story.refused) == {"vip", "small"}
    assert everything(story.snapshot) == before


class Picky(Says):
    """Does not like a pod for its name, of which its class says nothing."""

    reach = Reach.CLUSTER

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return super().filter(cycle, rows) & (cycle.pod.metadata.name != "a")


def test_what_a_plugin_has_against_one_pod_is_not_held_against_the_next_like_it() -> None:
    story = Story(*nodes(1), plugins=[Picky()]).run(task("a"), task("b"))
    assert (story.placed, set(story.refused)) == ({"b": "n0"}, {"a"})


# --- gangs ------------------------------------------------------------------------------------------------------------


def test_a_gang_that_fits_is_placed_whole() -> None:
    story = Story(*nodes(2), groups=[gang("g", 3)]).run(*(task(f"t{n}", "g", {"cpu": "2"}) for n in range(3)))
    assert len(story.placed) == 3
    status = story.statuses["g"]
    condition = present(status.conditions)[0]
    assert (status.phase, condition.type, condition.status) == ("Running", "Scheduled", "True")


def test_a_gang_that_does_not_fit_takes_nothing_and_says_how_far_it_got() -> None:
    story = Story(*nodes(1), groups=[gang("g", 3)])
    before = ledgers(story.snapshot)
    story.run(*(task(f"t{n}", "g", {"cpu": "2"}) for n in range(3)))
    told = "2 of the 3 pods that pod group default/g needs fit; 0/1 nodes are available: 1 Insufficient cpu."
    assert story.refused == dict.fromkeys(["t0", "t1", "t2"], told)
    assert (story.placed, ledgers(story.snapshot)) == ({}, before)
    (condition,) = present(story.statuses["g"].conditions)
    assert (condition.type, condition.status, condition.reason) == ("Unschedulable", "True", "NotEnoughResources")
    assert condition.message == told


def test_a_gang_of_one_that_does_not_fit_says_only_why() -> None:
    story = Story(*nodes(1), groups=[gang("g", 1)]).run(task("t0", "g", {"cpu": "9"}))
    assert story.refused == {"t0": "0/1 nodes are available: 1 Insufficient cpu."}


def test_a_gang_gives_way_to_who_fits() -> None:
    story = Story(*nodes(1), groups=[gang("g", 2, priority_class_name="high")])
    story.roster.priority_classes.apply(PriorityClass(metadata=ObjectMeta(name="high"), value=9))
    story.run(task("t0", "g", {"cpu": "3"}), task("t1", "g", {"cpu": "3"}), task("small"))
    assert story.placed == {"small": "n0"}


def test_pods_beyond_the_minimum_are_placed_as_far_as_they_fit() -> None:
    story = Story(*nodes(1), groups=[gang("g", 2)]).run(*(task(f"t{n}", "g", {"cpu": "1"}) for n in range(6)))
    assert len(story.placed) == 4
    assert story.refused == dict.fromkeys(["t4", "t5"], "0/1 nodes are available: 1 Insufficient cpu.")
    assert story.statuses["g"].phase == "Running"


def test_a_started_gang_grows() -> None:
    running = [task("t0", "g", on="n0"), task("t1", "g", on="n0")]
    story = Story(*nodes(1), running=running, groups=[gang("g", 2)]).run(task("t2", "g"))
    assert story.placed == {"t2": "n0"}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        pytest.param([], "pod group default/g does not exist", id="nobody made it"),
        pytest.param([gang("g", 3)], "pod group default/g needs 3 pods, 1 exist", id="pods are missing"),
    ],
)
def test_a_gang_that_is_not_there_yet(groups: list[PodGroup], message: str) -> None:
    assert Story(*nodes(1), groups=groups).run(task("t0", "g")).refused == {"t0": message}


def test_members_that_cannot_be_placed_are_told_apart_from_those_that_are_missing() -> None:
    story = Story(*nodes(1), running=[task("t0", "g", on="n0", phase="Failed")], groups=[gang("g", 2)])
    told = "pod group default/g needs 2 pods, 2 exist and 1 of them can be placed"
    assert story.run(task("t1", "g")).refused == {"t1": told}


def test_every_role_has_its_minimum() -> None:
    groups = [gang("g", 2, min_task_member={"chief": 1, "worker": 1})]
    pods = [task(f"w{n}", "g", {"cpu": "1"}, role="worker") for n in range(2)]
    story = Story(*nodes(1), groups=groups).run(*pods)
    assert story.placed == {}
    assert set(story.refused.values()) == {"pod group default/g lacks pods of a role that it needs"}
    story = Story(*nodes(1, offers={"cpu": "2", "pods": "9"}), groups=groups)
    assert set(story.run(*pods, task("z", "g", {"cpu": "1"}, role="chief")).placed) == {"w0", "z"}


class Beside(Says):
    """A chief goes only where a worker is."""

    reach = Reach.CLUSTER

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        snapshot = cycle.snapshot
        names = [snapshot.rows.name(row) for row in snapshot.rows.numbers(rows)]
        busy = [
            any(one.pod.metadata.name.startswith("w") for one in snapshot.occupants(present(name))) for name in names
        ]
        return np.array(busy) | (cycle.pod.metadata.name != "chief")


def test_who_is_not_needed_takes_no_room_from_who_is_and_fits_only_later() -> None:
    groups = [gang("g", 3, min_task_member={"chief": 1, "worker": 2})]
    story = Story(*nodes(1, offers={"cpu": "3", "pods": "9"}), groups=groups, plugins=[Beside()])
    workers = [task(f"w{number}", "g", role="worker") for number in range(4)]
    assert set(story.run(task("chief", "g", role="chief"), *workers).placed) == {"chief", "w0", "w1"}


def test_a_gang_without_a_role_that_it_needs_is_not_whole_however_many_it_has() -> None:
    workers = [task(f"w{number}", "g", role="worker", on="n0") for number in range(2)]
    groups = [gang("g", 2, min_task_member={"chief": 1, "worker": 1})]
    story = Story(*nodes(1), running=workers, groups=groups)
    story.run(task("z", "g", {"cpu": "9"}, role="chief"))
    status = story.statuses["g"]
    condition = present(status.conditions)[0]
    assert (status.phase, condition.type, condition.reason) == (
        "Inqueue",
        "Unschedulable",
        "Completing",
    )
    story = Story(*nodes(1), running=workers, groups=groups)
    story.run(task("vip", priority=9, requests={"cpu": "2"}), task("z", "g", {"cpu": "2"}, role="chief"))
    assert story.placed == {"z": "n0"}


def test_a_broken_gang_comes_before_everything_else_and_says_so() -> None:
    story = Story(*half_bound(cpu="2"), groups=[gang("g", 3)], running=[task("t0", "g", on="n0")])
    story.run(task("vip", priority=1000), task("t1", "g"), task("t2", "g", {"cpu": "2"}))
    assert story.placed == {"t1": "n0"}
    (condition,) = present(story.statuses["g"].conditions)
    assert condition.reason == "Completing"
    assert present(condition.message).startswith(
        "2 of 3 pods have a node already: the gang is completed before anything else. "
    )


def half_bound(*, cpu: str) -> list[Node]:
    return [node("n0", {"cpu": cpu, "pods": "9"})]


def test_what_fits_nowhere_of_a_broken_gang_keeps_the_room_where_least_is_lacking() -> None:
    there = [node(f"n{number}", {"cpu": "4", "pods": "9"}) for number in range(3)]
    running = [pod("a", {"cpu": "3"}, on="n0"), pod("b", {"cpu": "2"}, on="n1"), task("t0", "g", on="n2")]
    story = Story(*there, groups=[gang("g", 3)], running=[*running, pod("c", {"cpu": "2"}, on="n2")])
    story.run(task("t1", "g", {"cpu": "4"}), task("t2", "g", {"cpu": "3"}), task("x"), task("y"), task("z"))
    assert story.nominated == {"t1": "n1", "t2": "n0"}
    assert story.placed == {"x": "n2"}
    assert {name: row["cpu"] for name, row in ledgers(story.snapshot)["requested"].items()} == {
        "n0": 3000,
        "n1": 2000,
        "n2": 4000,
    }


def test_what_only_others_keep_out_of_a_broken_gang_keeps_the_room_where_they_may_leave() -> None:
    there = [node(f"n{number}", {"cpu": "4", "pods": "9"}) for number in range(2)]
    running = [task("t0", "g", labels={"app": "x"}, on="n0"), pod("a", labels={"app": "x"}, on="n1")]
    story = Story(*there, groups=[gang("g", 2)], running=running, plugins=[Apart()])
    story.run(task("t1", "g", {"cpu": "3"}, labels={"app": "x"}), task("y", requests={"cpu": "3"}))
    assert story.nominated == {"t1": "n0"}
    assert story.placed == {"y": "n1"}


def test_a_broken_gang_keeps_room_where_nobody_is_in_its_way_though_more_is_lacking() -> None:
    there = [node(f"n{number}", {"cpu": "4", "pods": "9"}) for number in range(2)]
    running = [task("t0", "g", {"cpu": "1"}, labels={"app": "x"}, on="n0"), pod("a", {"cpu": "3"}, on="n1")]
    story = Story(*there, groups=[gang("g", 2)], running=running, plugins=[Apart()])
    assert story.run(task("t1", "g", {"cpu": "2"}, labels={"app": "x"})).nominated == {"t1": "n1"}


def test_a_broken_gang_keeps_no_room_where_it_will_never_be_let_in() -> None:
    there = [node("n0", {"cpu": "2", "pods": "9"}), node("n1", {"cpu": "9", "pods": "9"}, unschedulable=True)]
    running = [task("t0", "g", {"cpu": "2"}, on="n0")]
    story = Story(*there, groups=[gang("g", 2)], running=running, plugins=[Apart()])
    assert story.run(task("t1", "g", {"cpu": "2"})).nominated == {"t1": "n0"}
    assert Story(*there, groups=[gang("g", 2)], running=running).run(task("t1", "g", {"cpu": "3"})).nominated == {}


def test_room_nominated_to_the_rest_of_a_broken_gang_is_kept_from_the_most_important() -> None:
    waiting = task("t1", "g", {"cpu": "2"})
    waiting = replace(waiting, status=PodStatus(nominated_node_name="n0"))
    story = Story(*half_bound(cpu="2"), groups=[gang("g", 2)], running=[task("t0", "g", on="n0")])
    story.roster.apply_pod(waiting)
    assert story.run(task("vip", priority=1000), nominated=[waiting]).placed == {}


def test_what_a_queue_may_still_take_is_kept_for_the_rest_of_a_broken_gang() -> None:
    running = [task("t0", "g", on="n0"), task("r", on="n0", queue="q")]
    groups, queues = [gang("g", 2, queue="q")], [queue("q", capability={"cpu": "3"})]
    story = Story(*half_bound(cpu="9"), groups=groups, running=running, queues=queues)
    story.run(task("t1", "g", {"cpu": "2"}), task("x", queue="q"))
    assert story.placed == {}
    assert story.refused["t1"].startswith("queue q would exceed its capability: cpu (limit 3, used 2, requested 2)")


class Bursts(Says):
    """Breaks when it is asked about the cluster as it will be."""

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        if not cycle.snapshot.pods.known:
            raise RuntimeError("nobody is there")
        return super().filter(cycle, rows)


def test_a_plugin_that_breaks_on_what_is_to_come_stops_nobody_else() -> None:
    old = pod("old", {"cpu": "4"}, on="n0", leaving=True)
    story = Story(*nodes(1), running=[old], groups=[gang("g", 1)], plugins=[Bursts()])
    story.run(task("big", "g", {"cpu": "4"}, priority=1), task("small", requests={}))
    assert (story.placed, story.refused) == ({"small": "n0"}, {"big": "Says: RuntimeError: nobody is there"})


def test_a_failed_reserve_of_one_member_discards_the_gang() -> None:
    journal: list[str] = []
    story = Story(
        *nodes(2), groups=[gang("g", 2)], plugins=[Keeps(journal), Keeps(journal, unschedulable("no"), name="b")]
    )
    before = everything(story.snapshot)
    story.run(task("t0", "g"), task("t1", "g"))
    assert (story.placed, everything(story.snapshot)) == ({}, before)
    assert Counter(line.split()[0] for line in journal) == {"reserve": 4, "unreserve": 4}


# --- properties -------------------------------------------------------------------------------------------------------

CPUS = st.integers(1, 5)
CLUSTERS = st.lists(st.integers(1, 8), min_size=1, max_size=4)
GANGS = st.lists(st.tuples(st.integers(1, 4), st.lists(CPUS, min_size=1, max_size=5), st.integers(0, 2)), max_size=5)
RUNNING = st.lists(st.tuples(st.integers(0, 3), CPUS, st.booleans()), max_size=4)


def random_story(
    cpus: Sequence[int], gangs: Sequence[tuple[int, list[int], int]], running: Sequence[tuple[int, int, bool]]
) -> tuple[Story, list[Pod]]:
    there = [node(f"n{n}", {"cpu": str(cpu), "pods": "9"}) for n, cpu in enumerate(cpus)]
    old = [
        pod(f"old{n}", {"cpu": str(cpu)}, on=f"n{on % len(cpus)}", leaving=gone)
        for n, (on, cpu, gone) in enumerate(running)
    ]
    story = Story(
        *there, running=old, groups=[gang(f"g{n}", least) for n, (least, _, _) in enumerate(gangs)], plugins=[Apart()]
    )
    pods = [
        task(f"t{n}-{m}", f"g{n}", {"cpu": str(cpu)}, priority=priority, labels={"app": "x"} if m == 0 else None)
        for n, (_, members, priority) in enumerate(gangs)
        for m, cpu in enumerate(members)
    ]
    return story, pods


@settings(max_examples=150, deadline=None)
@given(CLUSTERS, GANGS, RUNNING)
def test_never_over_committed_never_half_a_gang_never_two_that_must_be_apart(
    cpus: list[int], gangs: list[tuple[int, list[int], int]], running: list[tuple[int, int, bool]]
) -> None:
    story, pods = random_story(cpus, gangs, running)
    before = {name: row.get("cpu", 0) for name, row in ledgers(story.snapshot)["requested"].items()}
    story.run(*pods)
    by_name = {one.metadata.name: one for one in pods}
    used = Counter(before)
    for name, where in story.placed.items():
        used[where] += int(present(present(by_name[name].spec.containers)[0].resources.requests)["cpu"]) * 1000
    for number, cpu in enumerate(cpus):
        name = f"n{number}"
        assert used[name] <= max(cpu * 1000, before.get(name, 0))
        assert ledgers(story.snapshot)["requested"].get(name, {}).get("cpu", 0) == used[name]
    started = Counter(name.split("-")[0] for name in story.placed)
    assert all(started[f"t{n}"] in (0, *range(least, 99)) for n, (least, _, _) in enumerate(gangs))
    apart = [where for name, where in story.placed.items() if name.endswith("-0")]
    assert len(apart) == len(set(apart))
    assert {*story.placed, *story.refused} == set(by_name)
    assert not set(story.placed) & set(story.refused)


@settings(max_examples=60, deadline=None)
@given(CLUSTERS, GANGS, RUNNING, st.randoms(use_true_random=False))
def test_the_same_input_gives_the_same_placements_in_whatever_order_it_comes(
    cpus: list[int], gangs: list[tuple[int, list[int], int]], running: list[tuple[int, int, bool]], rng: Random
) -> None:
    story, pods = random_story(cpus, gangs, running)
    again, _ = random_story(cpus, gangs, running)
    shuffled = rng.sample(pods, len(pods))
    assert story.run(*pods).placed == again.run(*shuffled).placed
    assert story.nominated == again.nominated
