"""Sessions: gangs whole or not at all, order, queues, room that others are leaving, backfill, and what is told."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import (
    ObjectMeta,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodStatus,
    PriorityClass,
    Queue,
    QueueSpec,
    QueueStatus,
)
from restow.scheduling.actions.allocate import allocate
from restow.scheduling.actions.backfill import backfill
from restow.scheduling.actions.enqueue import admit, enqueue
from restow.scheduling.decisions import Assign, Nominate, Refuse, SetGroup
from restow.scheduling.engine import Engine
from restow.scheduling.framework import SUCCESS, Code, error, unschedulable
from restow.scheduling.jobs import Roster
from restow.scheduling.session import Session
from tests.model.cluster.builders import node, pod
from tests.model.cluster.reading import everything, ledgers
from tests.scheduling.core.doubles import Apart, Eligible, Fit, Keeps, Tries, cluster, nodes

ALL = (enqueue, allocate, backfill)


def task(name, group=None, requests=None, *, role=None, queue=None, created="", **fields):
    one = pod(name, requests, **fields)
    annotations = {
        "scheduling.k8s.io/group-name": group,
        "volcano.sh/task-spec": role,
        "scheduling.volcano.sh/queue-name": queue,
    }
    metadata = replace(
        one.metadata,
        annotations={key: value for key, value in annotations.items() if value},
        creation_timestamp=created or None,
    )
    return replace(one, metadata=metadata)


def gang(name, least, phase="Inqueue", **spec):
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(min_member=least, **spec),
        status=PodGroupStatus(phase=phase),
    )


def queue(name, state=None, **spec):
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(**spec), status=QueueStatus(state=state))


class Story:
    """A cluster and what it knows of gangs and queues; `run` opens a session for the pending pods."""

    def __init__(self, *there, running=(), groups=(), queues=(), plugins=()):
        self.snapshot = cluster(*there, pods=running)
        self.roster = Roster()
        for one in running:
            self.roster.apply_pod(one)
        for group in groups:
            self.roster.apply_group(group)
        for one in queues:
            self.roster.apply_queue(one)
        self.engine = Engine([Eligible(), Fit(), *plugins])

    def run(self, *pods, actions=ALL, nominated=(), cut=()):
        for one in pods:
            self.roster.apply_pod(one)
        session = Session(self.snapshot, self.engine, self.roster, now=0.0, pods=pods, nominated=nominated, cut=cut)
        self.decisions = session.run(actions)
        self.postponed = [one.metadata.name for one in session.postponed]
        return self

    @property
    def placed(self):
        return {one.pod.metadata.name: one.node for one in self.decisions if isinstance(one, Assign)}

    @property
    def refused(self):
        return {one.pod.metadata.name: one.message for one in self.decisions if isinstance(one, Refuse)}

    @property
    def nominated(self):
        return {one.pod.metadata.name: one.node for one in self.decisions if isinstance(one, Nominate)}

    @property
    def statuses(self):
        return {one.group.metadata.name: one.status for one in self.decisions if isinstance(one, SetGroup)}


# --- single pods ------------------------------------------------------------------------------------------------------


def test_single_pods_go_one_by_one():
    story = Story(*nodes(2)).run(task("a"), task("b"), task("big", requests={"cpu": "9"}))
    assert story.placed == {"a": "n0", "b": "n1"}
    assert story.refused == {"big": "0/2 nodes are available: 2 Insufficient cpu."}


def test_priority_then_age_then_name():
    one_place = node("n0", {"cpu": "1", "pods": "9"})
    pods = [task("b", created="2026-01-01T00:00:00Z"), task("a", created="2026-01-02T00:00:00Z")]
    assert list(Story(one_place).run(*pods).placed) == ["b"]
    assert list(Story(one_place).run(*pods, task("vip", priority=5)).placed) == ["vip"]


def test_a_failed_reserve_is_told_and_leaves_nothing():
    story = Story(*nodes(1), plugins=[Keeps([], error("disk on fire"))])
    before = everything(story.snapshot)
    story.run(task("a"))
    (refusal,) = story.decisions
    assert (refusal.code, refusal.message, refusal.plugins) == (Code.ERROR, "disk on fire", {"a"})
    assert everything(story.snapshot) == before


class Broken(Keeps):
    def reserve(self, cycle, node):
        raise ValueError("a bug")


@pytest.mark.parametrize("group", [None, "g"], ids=["a single pod", "a gang"])
def test_a_plugin_that_breaks_stops_nobody_else(group):
    story = Story(*nodes(2), groups=[gang("g", 1)], plugins=[Broken([])])
    before = everything(story.snapshot)
    story.run(task("a", group))
    (refusal,) = [one for one in story.decisions if isinstance(one, Refuse)]
    assert (refusal.code, refusal.message) == (Code.ERROR, "ValueError: a bug")
    assert everything(story.snapshot) == before


def test_room_is_kept_for_a_pod_that_postfilter_nominates():
    running = [task("r", requests={"cpu": "3"}, on="n0")]
    story = Story(*nodes(1), running=running, plugins=[Tries(SUCCESS, "n0")])
    before = everything(story.snapshot)
    story.run(task("vip", requests={"cpu": "2"}, priority=9), task("small"))
    assert story.nominated == {"vip": "n0", "small": "n0"}
    assert set(story.refused) == {"vip", "small"}
    assert everything(story.snapshot) == before


# --- gangs ------------------------------------------------------------------------------------------------------------


def test_a_gang_that_fits_is_placed_whole():
    story = Story(*nodes(2), groups=[gang("g", 3)]).run(*(task(f"t{n}", "g", {"cpu": "2"}) for n in range(3)))
    assert len(story.placed) == 3
    status = story.statuses["g"]
    assert (status.phase, status.conditions[0].type, status.conditions[0].status) == ("Running", "Scheduled", "True")


def test_a_gang_that_does_not_fit_takes_nothing_and_says_how_far_it_got():
    story = Story(*nodes(1), groups=[gang("g", 3)])
    before = ledgers(story.snapshot)
    story.run(*(task(f"t{n}", "g", {"cpu": "2"}) for n in range(3)))
    told = "2 of the 3 pods that pod group default/g needs fit; 0/1 nodes are available: 1 Insufficient cpu."
    assert story.refused == dict.fromkeys(["t0", "t1", "t2"], told)
    assert (story.placed, ledgers(story.snapshot)) == ({}, before)
    (condition,) = story.statuses["g"].conditions
    assert (condition.type, condition.status, condition.reason) == ("Unschedulable", "True", "NotEnoughResources")
    assert condition.message == told


def test_a_gang_gives_way_to_who_fits():
    story = Story(*nodes(1), groups=[gang("g", 2, priority_class_name="high")])
    story.roster.apply_priority_class(PriorityClass(metadata=ObjectMeta(name="high"), value=9))
    story.run(task("t0", "g", {"cpu": "3"}), task("t1", "g", {"cpu": "3"}), task("small"))
    assert story.placed == {"small": "n0"}


def test_pods_beyond_the_minimum_are_placed_as_far_as_they_fit():
    story = Story(*nodes(1), groups=[gang("g", 2)]).run(*(task(f"t{n}", "g", {"cpu": "1"}) for n in range(6)))
    assert len(story.placed) == 4
    assert story.refused == dict.fromkeys(["t4", "t5"], "0/1 nodes are available: 1 Insufficient cpu.")
    assert story.statuses["g"].phase == "Running"


def test_a_started_gang_grows():
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
def test_a_gang_that_is_not_there_yet(groups, message):
    assert Story(*nodes(1), groups=groups).run(task("t0", "g")).refused == {"t0": message}


def test_members_that_cannot_be_placed_are_told_apart_from_those_that_are_missing():
    story = Story(*nodes(1), running=[task("t0", "g", on="n0", phase="Failed")], groups=[gang("g", 2)])
    told = "pod group default/g needs 2 pods, 2 exist and 1 of them can be placed"
    assert story.run(task("t1", "g")).refused == {"t1": told}


def test_every_role_has_its_minimum():
    groups = [gang("g", 2, min_task_member={"chief": 1, "worker": 1})]
    pods = [task(f"w{n}", "g", {"cpu": "1"}, role="worker") for n in range(2)]
    story = Story(*nodes(1), groups=groups).run(*pods)
    assert story.placed == {}
    assert set(story.refused.values()) == {"pod group default/g lacks pods of a role that it needs"}
    story = Story(*nodes(1, offers={"cpu": "2", "pods": "9"}), groups=groups)
    assert set(story.run(*pods, task("z", "g", {"cpu": "1"}, role="chief")).placed) == {"w0", "z"}


def test_a_gang_without_a_role_that_it_needs_is_not_whole_however_many_it_has():
    workers = [task(f"w{number}", "g", role="worker", on="n0") for number in range(2)]
    groups = [gang("g", 2, min_task_member={"chief": 1, "worker": 1})]
    story = Story(*nodes(1), running=workers, groups=groups)
    story.run(task("z", "g", {"cpu": "9"}, role="chief"))
    status = story.statuses["g"]
    assert (status.phase, status.conditions[0].type, status.conditions[0].reason) == (
        "Inqueue",
        "Unschedulable",
        "Completing",
    )
    story = Story(*nodes(1), running=workers, groups=groups)
    story.run(task("vip", priority=9, requests={"cpu": "2"}), task("z", "g", {"cpu": "2"}, role="chief"))
    assert story.placed == {"z": "n0"}


def test_a_broken_gang_comes_before_everything_else_and_says_so():
    bound = task("t0", "g", {"cpu": "1"}, on="n0")
    there = node("n0", {"cpu": "2", "pods": "9"})
    story = Story(there, running=[bound], groups=[gang("g", 3)])
    story.run(task("vip", priority=1000, requests={"cpu": "1"}), task("t1", "g", {"cpu": "1"}), task("t2", "g"))
    assert story.placed == {"vip": "n0"}
    (condition,) = story.statuses["g"].conditions
    assert condition.reason == "Completing"
    assert condition.message.startswith("1 of 3 pods have a node already: the gang is completed before anything else. ")
    story = Story(there, running=[bound], groups=[gang("g", 2)])
    assert story.run(task("vip", priority=1000), task("t1", "g", {"cpu": "1"})).placed == {"t1": "n0"}


def test_a_failed_reserve_of_one_member_discards_the_gang():
    journal: list[str] = []
    story = Story(
        *nodes(2), groups=[gang("g", 2)], plugins=[Keeps(journal), Keeps(journal, unschedulable("no"), name="b")]
    )
    before = everything(story.snapshot)
    story.run(task("t0", "g"), task("t1", "g"))
    assert (story.placed, everything(story.snapshot)) == ({}, before)
    assert Counter(line.split()[0] for line in journal) == {"reserve": 4, "unreserve": 4}


# --- the gate ---------------------------------------------------------------------------------------------------------


def test_a_pending_gang_is_let_in_and_started():
    story = Story(*nodes(1), groups=[gang("g", 1, "Pending", min_resources={"cpu": "1"})]).run(task("t0", "g"))
    assert (story.placed, story.statuses["g"].phase) == ({"t0": "n0"}, "Running")


def test_the_gate_closes_a_fifth_above_what_there_is():
    groups = [gang(name, 1, "Pending", min_resources={"cpu": "2400m"}) for name in "abc"]
    story = Story(*nodes(1), groups=groups).run(*(task(f"t-{name}", name, {"cpu": "2"}) for name in "abc"))
    assert set(story.placed) == {"t-a", "t-b"}
    assert story.refused["t-c"].startswith("pod group default/c is not let in")
    assert story.statuses["c"].phase == "Pending"


def test_without_the_gate_everybody_is_let_in():
    story = Story(*nodes(1), groups=[gang("g", 1, "Pending", min_resources={"cpu": "99"})])
    assert story.run(task("t0", "g"), actions=(admit, allocate)).placed == {"t0": "n0"}


# --- queues -----------------------------------------------------------------------------------------------------------


def test_queues_share_by_weight():
    story = Story(*nodes(1, offers={"cpu": "4", "pods": "99"}), queues=[queue("a", weight=3), queue("b", weight=1)])
    pods = [task(f"{name}{n}", queue=name) for name in "ab" for n in range(4)]
    assert Counter(name[0] for name in story.run(*pods).placed) == {"a": 3, "b": 1}


def test_what_is_behind_a_job_that_is_not_here_is_postponed():
    story = Story(*nodes(1, offers={"cpu": "9", "pods": "99"}), queues=[queue("a"), queue("b")])
    story.run(task("a0", queue="a"), *(task(f"b{n}", queue="b") for n in range(3)), cut=["a"])
    assert (set(story.placed), story.postponed, story.refused) == ({"a0", "b0"}, ["b1", "b2"], {})


def _in_batches(story, pods, size):
    """Where the pods go when a session gets only the first of each queue."""
    placed, left = {}, {name: [one for one in pods if story.roster.queue_of(one) == name] for name in "abc"}
    while any(left.values()):
        batch = [one for line in left.values() for one in line[:size]]
        story.run(*batch, cut=[name for name, line in left.items() if len(line) > size])
        placed |= story.placed
        back = set(story.postponed)
        assert len(back) < len(batch)
        left = {
            name: [one for one in line[:size] if one.metadata.name in back] + line[size:] for name, line in left.items()
        }
    return placed


sizes = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["500m", "1", "2", "3"])), max_size=14)


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 4), st.tuples(*[st.integers(1, 3)] * 3))
def test_queues_share_alike_in_one_session_and_in_batches(sizes, size, weights):
    def story():
        queues = [queue(name, weight=weight) for name, weight in zip("abc", weights, strict=True)]
        return Story(*nodes(2, offers={"cpu": "5", "pods": "99"}), queues=queues)

    pods = [task(f"{name}{n:02}", queue=name, requests={"cpu": cpu}) for n, (name, cpu) in enumerate(sizes)]
    assert _in_batches(story(), pods, size) == story().run(*pods).placed


def test_what_a_queue_uses_already_counts():
    running = [task(f"r{n}", queue="a", on="n0") for n in range(2)]
    story = Story(*nodes(1), running=running, queues=[queue("a"), queue("b")])
    assert set(story.run(task("a0", queue="a"), task("b0", queue="b"), task("b1", queue="b")).placed) == {"b0", "b1"}


@pytest.mark.parametrize(
    ("known", "message"),
    [
        pytest.param([], "queue q does not exist", id="missing"),
        pytest.param([queue("q", "Closed")], "queue q is Closed", id="closed"),
        pytest.param(
            [queue("q", capability={"cpu": "500m"})],
            "queue q would exceed its capability: cpu (limit 500m, used 0, requested 1)",
            id="limited",
        ),
    ],
)
def test_a_queue_that_cannot_take_more_is_named(known, message):
    assert Story(*nodes(1), queues=known).run(task("p", queue="q")).refused == {"p": message}


def test_the_queue_of_a_gang_is_the_groups():
    story = Story(*nodes(1), groups=[gang("g", 1, queue="gone")]).run(task("t", "g"))
    assert story.refused == {"t": "queue gone does not exist"}


@pytest.mark.parametrize(
    ("before", "after", "used"),
    [
        pytest.param({"queue": "a"}, {"queue": "b"}, {"a": 0, "b": 1000}, id="it was put into another queue"),
        pytest.param({}, {"requests": {"cpu": "3"}}, {"default": 3000}, id="it was resized"),
    ],
)
def test_what_changed_about_a_running_pod_is_counted_and_nothing_of_it_stays(before, after, used):
    roster = Roster()
    assert roster.usage() == {}
    roster.apply_pod(task("t", on="n0", **before))
    roster.apply_pod(task("t", on="n0", **after))
    assert {queue: usage["cpu"] for queue, usage in roster.usage().items()} == used
    roster.remove_pod(task("t", on="n0", **after))
    assert not any(amount for usage in roster.usage().values() for amount in usage.values())


@pytest.mark.parametrize("later", ["other", None])
def test_a_pod_that_left_a_gang_is_no_member_of_it(later):
    roster = Roster()
    roster.apply_pod(task("t", "first"))
    roster.apply_pod(task("t", later))
    assert roster.members(("default", "first")) == []
    roster.remove_pod(task("t", later))
    assert roster.members(("default", "other")) == []


def test_a_priority_class_that_is_the_default_no_longer_is_forgotten_as_such():
    roster = Roster()
    default = PriorityClass(metadata=ObjectMeta(name="usual"), value=5, global_default=True)
    roster.apply_priority_class(default)
    assert roster.default_class == "usual"
    roster.apply_priority_class(replace(default, global_default=False))
    assert roster.default_class == ""


# --- room that others are leaving -------------------------------------------------------------------------------------


def leaving_cluster(**fields):
    return Story(*nodes(1), running=[pod("old", {"cpu": "3"}, on="n0", leaving=True)], **fields)


def test_what_a_gang_has_beyond_its_minimum_waits_with_it():
    story = leaving_cluster(groups=[gang("g", 1)])
    story.run(*(task(name, "g", {"cpu": "4"}) for name in ("a", "b")))
    assert story.refused == {
        "a": "waiting for room that others are leaving on node n0",
        "b": "pod group default/g is waiting for room that others are leaving",
    }
    [told] = story.statuses["g"].conditions
    assert told.message == "waiting for room that others are leaving"


def test_room_that_others_are_leaving_is_kept_for_the_first_who_needs_it():
    story = leaving_cluster().run(task("a", requests={"cpu": "4"}), task("b", requests={"cpu": "4"}))
    assert story.nominated == {"a": "n0"}
    assert story.refused["a"] == "waiting for room that others are leaving on node n0"
    assert ledgers(story.snapshot)["requested"]["n0"]["cpu"] == 3000


def test_room_of_pods_that_should_have_been_gone_is_not_waited_for():
    story = leaving_cluster()
    pods = [task("a", requests={"cpu": "4"}), task("b")]
    decisions = Session(story.snapshot, story.engine, story.roster, now=1.9e9, pods=pods).run(ALL)
    assert [type(one) for one in decisions] == [Refuse, Assign]


def test_backfill_takes_only_what_the_waiting_job_does_not_need():
    there = [node("n0", {"cpu": "4", "pods": "9"}), node("n1", {"cpu": "1", "pods": "9"})]
    story = Story(*there, running=[pod("old", {"cpu": "3"}, on="n0", leaving=True)])
    story.run(task("a-big", requests={"cpu": "4"}), task("b"), task("c"))
    assert (story.nominated, story.placed) == ({"a-big": "n0"}, {"b": "n1"})
    assert set(story.refused) == {"a-big", "c"}


def test_without_backfill_what_is_behind_waits():
    story = leaving_cluster().run(task("a", requests={"cpu": "4"}), task("b", {}, {}), actions=(enqueue, allocate))
    assert story.refused["b"] == "queue default waits for an earlier job"


def test_a_gang_waits_for_room_as_a_whole():
    story = leaving_cluster(groups=[gang("g", 2)]).run(task("t0", "g", {"cpu": "2"}), task("t1", "g", {"cpu": "2"}))
    assert story.nominated == {"t0": "n0", "t1": "n0"}
    assert story.placed == {}


def test_room_nominated_earlier_is_kept_against_who_is_not_more_important():
    waiting = task("w", requests={"cpu": "4"}, priority=5)
    waiting = replace(waiting, status=PodStatus(nominated_node_name="n0"))
    assert leaving_cluster().run(task("low"), nominated=[waiting]).placed == {}
    assert leaving_cluster().run(task("high", priority=6), nominated=[waiting]).placed == {"high": "n0"}


# --- room whose end is known -----------------------------------------------------------------------------------------


def batch_cluster():
    """One node of 4 with 1 free; a pod of 2 ends at 100, one of 1 at 200."""
    began = PodStatus(start_time="1970-01-01T00:00:00Z")
    running = [
        replace(pod(name, {"cpu": cpu}, on="n0", active_deadline_seconds=end), status=began)
        for name, cpu, end in [("first", "2", 100), ("second", "1", 200)]
    ]
    return Story(*nodes(1), running=running, groups=[gang("g", 1)])


def test_a_gang_keeps_the_room_that_is_free_soonest():
    story = batch_cluster().run(task("big", "g", {"cpu": "3"}))
    assert story.nominated == {"big": "n0"}
    assert story.refused["big"] == "waiting for room that others are leaving on node n0 by 1970-01-01T00:01:40Z"


def test_a_single_pod_does_not():
    assert batch_cluster().run(task("big", requests={"cpu": "3"})).nominated == {}


@pytest.mark.parametrize(
    ("seconds", "placed"),
    [
        pytest.param(100, {"small": "n0"}, id="over in time"),
        pytest.param(101, {}, id="over too late"),
        pytest.param(None, {}, id="nobody knows"),
    ],
)
def test_who_is_over_in_time_may_use_kept_room(seconds, placed):
    pods = [task("big", "g", {"cpu": "3"}, priority=1), task("small", active_deadline_seconds=seconds)]
    story = batch_cluster().run(*pods)
    assert (story.nominated, story.placed) == ({"big": "n0"}, placed)
    assert ledgers(story.snapshot)["requested"]["n0"]["cpu"] == 3000 + 1000 * len(placed)


def test_who_can_never_fit_keeps_nothing():
    story = batch_cluster().run(task("huge", "g", {"cpu": "9"}), task("small"))
    assert (story.nominated, story.placed) == ({}, {"small": "n0"})


# --- properties -------------------------------------------------------------------------------------------------------

CPUS = st.integers(1, 5)
CLUSTERS = st.lists(st.integers(1, 8), min_size=1, max_size=4)
GANGS = st.lists(st.tuples(st.integers(1, 4), st.lists(CPUS, min_size=1, max_size=5), st.integers(0, 2)), max_size=5)
RUNNING = st.lists(st.tuples(st.integers(0, 3), CPUS, st.booleans()), max_size=4)


def random_story(cpus, gangs, running):
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
def test_never_over_committed_never_half_a_gang_never_two_that_must_be_apart(cpus, gangs, running):
    story, pods = random_story(cpus, gangs, running)
    before = {name: row.get("cpu", 0) for name, row in ledgers(story.snapshot)["requested"].items()}
    story.run(*pods)
    by_name = {one.metadata.name: one for one in pods}
    used = Counter(before)
    for name, where in story.placed.items():
        used[where] += int(by_name[name].spec.containers[0].resources.requests["cpu"]) * 1000
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
def test_the_same_input_gives_the_same_placements_in_whatever_order_it_comes(cpus, gangs, running, rng):
    story, pods = random_story(cpus, gangs, running)
    again, _ = random_story(cpus, gangs, running)
    shuffled = rng.sample(pods, len(pods))
    assert story.run(*pods).placed == again.run(*shuffled).placed
    assert story.nominated == again.nominated
