"""Sessions: the order of jobs, gangs whole or not at all, and the reasons in decisions and statuses."""

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
from tests.model.cluster.snapshot_values import all_values, ledgers
from tests.narrowing import present
from tests.scheduling.core.sample_plugins import AnswersAsTold, OnePodPerNode, PostFilterAsTold, RecordsCalls, nodes
from tests.scheduling.core.session_fixture import SessionFixture, gang, queue, task

# --- single pods ------------------------------------------------------------------------------------------------------


def test_single_pods_are_placed_one_by_one() -> None:
    fixture = SessionFixture(*nodes(2)).run(task("a"), task("b"), task("big", requests={"cpu": "9"}))
    assert fixture.placed == {"a": "n0", "b": "n1"}
    assert fixture.refused == {"big": "0/2 nodes are available: 2 Insufficient cpu."}


def test_jobs_are_ordered_by_priority_then_age_then_name() -> None:
    one_place = node("n0", {"cpu": "1", "pods": "9"})
    pods = [task("b", created="2026-01-01T00:00:00Z"), task("a", created="2026-01-02T00:00:00Z")]
    assert list(SessionFixture(one_place).run(*pods).placed) == ["b"]
    assert list(SessionFixture(one_place).run(*pods, task("vip", priority=5)).placed) == ["vip"]


def test_pod_with_a_failed_reserve_is_refused_and_not_assumed() -> None:
    fixture = SessionFixture(*nodes(1), plugins=[RecordsCalls([], error("disk on fire"))])
    before = all_values(fixture.snapshot)
    fixture.run(task("a"))
    (refusal,) = fixture.decisions
    assert isinstance(refusal, RefusePod)
    assert (refusal.code, refusal.message, refusal.plugins) == (Code.ERROR, "disk on fire", frozenset({"a"}))
    assert all_values(fixture.snapshot) == before


class Broken(RecordsCalls):
    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        raise ValueError("a bug")


@pytest.mark.parametrize("group", [None, "g"], ids=["a single pod", "a gang"])
def test_plugin_that_raises_about_one_pod_leaves_other_pods_placed(group: str | None) -> None:
    fixture = SessionFixture(*nodes(2), groups=[gang("g", 1)], plugins=[Broken([])])
    before = all_values(fixture.snapshot)
    fixture.run(task("a", group))
    (refusal,) = [one for one in fixture.decisions if isinstance(one, RefusePod)]
    assert (refusal.code, refusal.message) == (Code.ERROR, "a: ValueError: a bug")
    assert all_values(fixture.snapshot) == before


def test_room_is_kept_for_a_pod_that_post_filter_nominates() -> None:
    running = [task("r", requests={"cpu": "3"}, on="n0")]
    fixture = SessionFixture(*nodes(1), running=running, plugins=[PostFilterAsTold(SUCCESS, "n0")])
    before = all_values(fixture.snapshot)
    fixture.run(task("vip", requests={"cpu": "2"}, priority=9), task("small"))
    assert fixture.nominated == {"vip": "n0", "small": "n0"}
    assert set(fixture.refused) == {"vip", "small"}
    assert all_values(fixture.snapshot) == before


class Picky(AnswersAsTold):
    """Does not like a pod for its name, of which its class says nothing."""

    reach = Reach.CLUSTER

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return super().filter(cycle, rows) & (cycle.pod.metadata.name != "a")


def test_per_pod_refusal_is_not_reused_for_the_next_pod_of_the_class() -> None:
    fixture = SessionFixture(*nodes(1), plugins=[Picky()]).run(task("a"), task("b"))
    assert (fixture.placed, set(fixture.refused)) == ({"b": "n0"}, {"a"})


# --- gangs ------------------------------------------------------------------------------------------------------------


def test_gang_that_fits_is_placed_whole() -> None:
    fixture = SessionFixture(*nodes(2), groups=[gang("g", 3)]).run(
        *(task(f"t{n}", "g", {"cpu": "2"}) for n in range(3))
    )
    assert len(fixture.placed) == 3
    status = fixture.statuses["g"]
    condition = present(status.conditions)[0]
    assert (status.phase, condition.type, condition.status) == ("Running", "Scheduled", "True")


def test_gang_that_does_not_fit_takes_nothing_and_counts_the_pods_that_fit() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 3)])
    before = ledgers(fixture.snapshot)
    fixture.run(*(task(f"t{n}", "g", {"cpu": "2"}) for n in range(3)))
    message = "2 of the 3 pods that pod group default/g needs fit; 0/1 nodes are available: 1 Insufficient cpu."
    assert fixture.refused == dict.fromkeys(["t0", "t1", "t2"], message)
    assert (fixture.placed, ledgers(fixture.snapshot)) == ({}, before)
    (condition,) = present(fixture.statuses["g"].conditions)
    assert (condition.type, condition.status, condition.reason) == ("Unschedulable", "True", "NotEnoughResources")
    assert condition.message == message


def test_gang_of_one_that_does_not_fit_shows_the_refusal_alone() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 1)]).run(task("t0", "g", {"cpu": "9"}))
    assert fixture.refused == {"t0": "0/1 nodes are available: 1 Insufficient cpu."}


def test_gang_that_does_not_fit_gives_way_to_jobs_that_fit() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 2, priority_class_name="high")])
    fixture.pod_groups.priority_classes.apply(PriorityClass(metadata=ObjectMeta(name="high"), value=9))
    fixture.run(task("t0", "g", {"cpu": "3"}), task("t1", "g", {"cpu": "3"}), task("small"))
    assert fixture.placed == {"small": "n0"}


def test_gang_pods_beyond_the_minimum_are_placed_as_far_as_they_fit() -> None:
    fixture = SessionFixture(*nodes(1), groups=[gang("g", 2)]).run(
        *(task(f"t{n}", "g", {"cpu": "1"}) for n in range(6))
    )
    assert len(fixture.placed) == 4
    assert fixture.refused == dict.fromkeys(["t4", "t5"], "0/1 nodes are available: 1 Insufficient cpu.")
    assert fixture.statuses["g"].phase == "Running"


def test_started_gang_gets_more_pods() -> None:
    running = [task("t0", "g", on="n0"), task("t1", "g", on="n0")]
    fixture = SessionFixture(*nodes(1), running=running, groups=[gang("g", 2)]).run(task("t2", "g"))
    assert fixture.placed == {"t2": "n0"}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        pytest.param([], "pod group default/g does not exist", id="the PodGroup does not exist"),
        pytest.param([gang("g", 3)], "pod group default/g needs 3 pods, 1 exist", id="pods are missing"),
    ],
)
def test_gang_with_too_few_pods_waits(groups: list[PodGroup], message: str) -> None:
    assert SessionFixture(*nodes(1), groups=groups).run(task("t0", "g")).refused == {"t0": message}


def test_gang_refusal_counts_missing_members_and_members_that_cannot_be_placed() -> None:
    fixture = SessionFixture(*nodes(1), running=[task("t0", "g", on="n0", phase="Failed")], groups=[gang("g", 2)])
    message = "pod group default/g needs 2 pods, 2 exist and 1 of them can be placed"
    assert fixture.run(task("t1", "g")).refused == {"t1": message}


def test_gang_starts_with_the_minimum_of_every_role() -> None:
    groups = [gang("g", 2, min_task_member={"chief": 1, "worker": 1})]
    pods = [task(f"w{n}", "g", {"cpu": "1"}, role="worker") for n in range(2)]
    fixture = SessionFixture(*nodes(1), groups=groups).run(*pods)
    assert fixture.placed == {}
    assert set(fixture.refused.values()) == {"pod group default/g lacks pods of a role that it needs"}
    fixture = SessionFixture(*nodes(1, allocatable={"cpu": "2", "pods": "9"}), groups=groups)
    assert set(fixture.run(*pods, task("z", "g", {"cpu": "1"}, role="chief")).placed) == {"w0", "z"}


class Beside(AnswersAsTold):
    """A chief goes only where a worker is."""

    reach = Reach.CLUSTER

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        snapshot = cycle.snapshot
        names = [snapshot.rows.name(row) for row in snapshot.rows.numbers(rows)]
        busy = [
            any(one.pod.metadata.name.startswith("w") for one in snapshot.occupants(present(name))) for name in names
        ]
        return np.array(busy) | (cycle.pod.metadata.name != "chief")


def test_needed_roles_are_placed_before_pods_that_are_not_needed() -> None:
    groups = [gang("g", 3, min_task_member={"chief": 1, "worker": 2})]
    fixture = SessionFixture(*nodes(1, allocatable={"cpu": "3", "pods": "9"}), groups=groups, plugins=[Beside()])
    workers = [task(f"w{number}", "g", role="worker") for number in range(4)]
    assert set(fixture.run(task("chief", "g", role="chief"), *workers).placed) == {"chief", "w0", "w1"}


def test_gang_without_a_needed_role_is_not_whole() -> None:
    workers = [task(f"w{number}", "g", role="worker", on="n0") for number in range(2)]
    groups = [gang("g", 2, min_task_member={"chief": 1, "worker": 1})]
    fixture = SessionFixture(*nodes(1), running=workers, groups=groups)
    fixture.run(task("z", "g", {"cpu": "9"}, role="chief"))
    status = fixture.statuses["g"]
    condition = present(status.conditions)[0]
    assert (status.phase, condition.type, condition.reason) == (
        "Inqueue",
        "Unschedulable",
        "Completing",
    )
    fixture = SessionFixture(*nodes(1), running=workers, groups=groups)
    fixture.run(task("vip", priority=9, requests={"cpu": "2"}), task("z", "g", {"cpu": "2"}, role="chief"))
    assert fixture.placed == {"z": "n0"}


def test_broken_gang_comes_before_all_other_jobs() -> None:
    fixture = SessionFixture(*half_bound(cpu="2"), groups=[gang("g", 3)], running=[task("t0", "g", on="n0")])
    fixture.run(task("vip", priority=1000), task("t1", "g"), task("t2", "g", {"cpu": "2"}))
    assert fixture.placed == {"t1": "n0"}
    (condition,) = present(fixture.statuses["g"].conditions)
    assert condition.reason == "Completing"
    assert present(condition.message).startswith(
        "2 of 3 pods have a node already: the gang is completed before anything else. "
    )


def half_bound(*, cpu: str) -> list[Node]:
    return [node("n0", {"cpu": cpu, "pods": "9"})]


def test_missing_pod_of_a_broken_gang_keeps_the_node_that_lacks_least_room() -> None:
    there = [node(f"n{number}", {"cpu": "4", "pods": "9"}) for number in range(3)]
    running = [pod("a", {"cpu": "3"}, on="n0"), pod("b", {"cpu": "2"}, on="n1"), task("t0", "g", on="n2")]
    fixture = SessionFixture(*there, groups=[gang("g", 3)], running=[*running, pod("c", {"cpu": "2"}, on="n2")])
    fixture.run(task("t1", "g", {"cpu": "4"}), task("t2", "g", {"cpu": "3"}), task("x"), task("y"), task("z"))
    assert fixture.nominated == {"t1": "n1", "t2": "n0"}
    assert fixture.placed == {"x": "n2"}
    assert {name: row["cpu"] for name, row in ledgers(fixture.snapshot)["requested"].items()} == {
        "n0": 3000,
        "n1": 2000,
        "n2": 4000,
    }


def test_missing_pod_of_a_broken_gang_keeps_a_node_that_other_pods_may_leave() -> None:
    there = [node(f"n{number}", {"cpu": "4", "pods": "9"}) for number in range(2)]
    running = [task("t0", "g", labels={"app": "x"}, on="n0"), pod("a", labels={"app": "x"}, on="n1")]
    fixture = SessionFixture(*there, groups=[gang("g", 2)], running=running, plugins=[OnePodPerNode()])
    fixture.run(task("t1", "g", {"cpu": "3"}, labels={"app": "x"}), task("y", requests={"cpu": "3"}))
    assert fixture.nominated == {"t1": "n0"}
    assert fixture.placed == {"y": "n1"}


def test_broken_gang_prefers_a_node_that_only_lacks_room() -> None:
    there = [node(f"n{number}", {"cpu": "4", "pods": "9"}) for number in range(2)]
    running = [task("t0", "g", {"cpu": "1"}, labels={"app": "x"}, on="n0"), pod("a", {"cpu": "3"}, on="n1")]
    fixture = SessionFixture(*there, groups=[gang("g", 2)], running=running, plugins=[OnePodPerNode()])
    assert fixture.run(task("t1", "g", {"cpu": "2"}, labels={"app": "x"})).nominated == {"t1": "n1"}


def test_broken_gang_keeps_no_room_on_an_unresolvable_node() -> None:
    there = [node("n0", {"cpu": "2", "pods": "9"}), node("n1", {"cpu": "9", "pods": "9"}, unschedulable=True)]
    running = [task("t0", "g", {"cpu": "2"}, on="n0")]
    fixture = SessionFixture(*there, groups=[gang("g", 2)], running=running, plugins=[OnePodPerNode()])
    assert fixture.run(task("t1", "g", {"cpu": "2"})).nominated == {"t1": "n0"}
    assert (
        SessionFixture(*there, groups=[gang("g", 2)], running=running).run(task("t1", "g", {"cpu": "3"})).nominated
        == {}
    )


def test_room_nominated_to_a_broken_gang_is_kept_from_more_important_pods() -> None:
    waiting = task("t1", "g", {"cpu": "2"})
    waiting = replace(waiting, status=PodStatus(nominated_node_name="n0"))
    fixture = SessionFixture(*half_bound(cpu="2"), groups=[gang("g", 2)], running=[task("t0", "g", on="n0")])
    fixture.pod_groups.apply_pod(waiting)
    assert fixture.run(task("vip", priority=1000), nominated=[waiting]).placed == {}


def test_queue_capacity_is_kept_for_the_rest_of_a_broken_gang() -> None:
    running = [task("t0", "g", on="n0"), task("r", on="n0", queue="q")]
    groups, queues = [gang("g", 2, queue="q")], [queue("q", capability={"cpu": "3"})]
    fixture = SessionFixture(*half_bound(cpu="9"), groups=groups, running=running, queues=queues)
    fixture.run(task("t1", "g", {"cpu": "2"}), task("x", queue="q"))
    assert fixture.placed == {}
    assert fixture.refused["t1"].startswith("queue q would exceed its capability: cpu (limit 3, used 2, requested 2)")


class Bursts(AnswersAsTold):
    """Breaks when it is asked about the cluster as it will be."""

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        if not cycle.snapshot.pods.known:
            raise RuntimeError("nothing is there")
        return super().filter(cycle, rows)


def test_plugin_that_raises_about_a_broken_gang_leaves_other_pods_placed() -> None:
    old = pod("old", {"cpu": "4"}, on="n0", leaving=True)
    fixture = SessionFixture(*nodes(1), running=[old], groups=[gang("g", 1)], plugins=[Bursts()])
    fixture.run(task("big", "g", {"cpu": "4"}, priority=1), task("small", requests={}))
    assert (fixture.placed, fixture.refused) == ({"small": "n0"}, {"big": "Says: RuntimeError: nothing is there"})


def test_failed_reserve_of_one_member_discards_the_gang() -> None:
    journal: list[str] = []
    fixture = SessionFixture(
        *nodes(2),
        groups=[gang("g", 2)],
        plugins=[RecordsCalls(journal), RecordsCalls(journal, unschedulable("no"), name="b")],
    )
    before = all_values(fixture.snapshot)
    fixture.run(task("t0", "g"), task("t1", "g"))
    assert (fixture.placed, all_values(fixture.snapshot)) == ({}, before)
    assert Counter(line.split()[0] for line in journal) == {"reserve": 4, "unreserve": 4}


# --- properties -------------------------------------------------------------------------------------------------------

CPUS = st.integers(1, 5)
CLUSTERS = st.lists(st.integers(1, 8), min_size=1, max_size=4)
GANGS = st.lists(st.tuples(st.integers(1, 4), st.lists(CPUS, min_size=1, max_size=5), st.integers(0, 2)), max_size=5)
RUNNING = st.lists(st.tuples(st.integers(0, 3), CPUS, st.booleans()), max_size=4)


def random_story(
    cpus: Sequence[int], gangs: Sequence[tuple[int, list[int], int]], running: Sequence[tuple[int, int, bool]]
) -> tuple[SessionFixture, list[Pod]]:
    there = [node(f"n{n}", {"cpu": str(cpu), "pods": "9"}) for n, cpu in enumerate(cpus)]
    old = [
        pod(f"old{n}", {"cpu": str(cpu)}, on=f"n{on % len(cpus)}", leaving=gone)
        for n, (on, cpu, gone) in enumerate(running)
    ]
    fixture = SessionFixture(
        *there,
        running=old,
        groups=[gang(f"g{n}", least) for n, (least, _, _) in enumerate(gangs)],
        plugins=[OnePodPerNode()],
    )
    pods = [
        task(f"t{n}-{m}", f"g{n}", {"cpu": str(cpu)}, priority=priority, labels={"app": "x"} if m == 0 else None)
        for n, (_, members, priority) in enumerate(gangs)
        for m, cpu in enumerate(members)
    ]
    return fixture, pods


@settings(max_examples=150, deadline=None)
@given(CLUSTERS, GANGS, RUNNING)
def test_sessions_never_over_commit_nor_split_gangs_nor_violate_anti_affinity(
    cpus: list[int], gangs: list[tuple[int, list[int], int]], running: list[tuple[int, int, bool]]
) -> None:
    fixture, pods = random_story(cpus, gangs, running)
    before = {name: row.get("cpu", 0) for name, row in ledgers(fixture.snapshot)["requested"].items()}
    fixture.run(*pods)
    by_name = {one.metadata.name: one for one in pods}
    used = Counter(before)
    for name, where in fixture.placed.items():
        used[where] += int(present(present(by_name[name].spec.containers)[0].resources.requests)["cpu"]) * 1000
    for number, cpu in enumerate(cpus):
        name = f"n{number}"
        assert used[name] <= max(cpu * 1000, before.get(name, 0))
        assert ledgers(fixture.snapshot)["requested"].get(name, {}).get("cpu", 0) == used[name]
    started = Counter(name.split("-")[0] for name in fixture.placed)
    assert all(started[f"t{n}"] in (0, *range(least, 99)) for n, (least, _, _) in enumerate(gangs))
    apart = [where for name, where in fixture.placed.items() if name.endswith("-0")]
    assert len(apart) == len(set(apart))
    assert {*fixture.placed, *fixture.refused} == set(by_name)
    assert not set(fixture.placed) & set(fixture.refused)


@settings(max_examples=60, deadline=None)
@given(CLUSTERS, GANGS, RUNNING, st.randoms(use_true_random=False))
def test_placements_do_not_depend_on_the_order_of_input(
    cpus: list[int], gangs: list[tuple[int, list[int], int]], running: list[tuple[int, int, bool]], rng: Random
) -> None:
    fixture, pods = random_story(cpus, gangs, running)
    again, _ = random_story(cpus, gangs, running)
    shuffled = rng.sample(pods, len(pods))
    assert fixture.run(*pods).placed == again.run(*shuffled).placed
    assert fixture.nominated == again.nominated
