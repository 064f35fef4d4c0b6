"""The binding cycle when something comes in between, and everything that is given back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from restow.control.scheduler import Settings
from restow.model import kinds
from restow.model.objects import Pod
from restow.ports import (
    Api,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Request,
    Response,
    TooManyRequests,
)
from restow.scheduling.framework import (
    SUCCESS,
    BindPlugin,
    Cycle,
    FilterPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    QueueSortPlugin,
    Refusal,
    ReservePlugin,
    Verdict,
    error,
    unschedulable,
    wait,
)
from restow.scheduling.writes import Write
from tests.control.stage import PutBack, check_room, condition, events, group, member, places, stage, world
from tests.sim.stage import node, pass_time, pod, ready, scheduler, virtual

UNKNOWN = OutcomeUnknown.because(504, "Timeout", "lost in the net")
BUSY = TooManyRequests.because(429, "TooManyRequests", "not now")
FORBIDDEN = Forbidden.because(403, "Forbidden", "no bindings today")
CONFLICT = Conflict.because(409, "Conflict", "no")
MISSING = NotFound.because(404, "NotFound", "who is that?")


class Interfering:
    """An Api whose bindings are interfered with: `before` may raise, `after` raises although it took effect."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.before: list[ApiError] = []
        self.after: list[ApiError] = []
        self.first: Callable[[], Any] | None = None
        self.bindings = 0

    async def call(self, request: Request) -> Response:
        if request.subresource != "binding":
            return await self._api.call(request)
        self.bindings += 1
        if self.first is not None:
            first, self.first = self.first, None
            await first()
        if self.before:
            raise self.before.pop(0)
        response = await self._api.call(request)
        if self.after:
            raise self.after.pop(0)
        return response

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


class Keeper(ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin):
    """Writes down what it is asked, and answers as told."""

    name: ClassVar[str] = "Keeper"

    def __init__(self, name: str = "Keeper") -> None:
        super().__init__()
        self.name = name  # type: ignore[misc]
        self.journal: list[str] = []
        self.permits: list[Verdict] = []
        self.settles: list[Verdict] = []
        self.patience = 10.0

    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        self.journal.append("reserve")
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.journal.append("unreserve")

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        return (self.permits.pop(0) if len(self.permits) > 1 else (self.permits or [SUCCESS])[0]), self.patience

    def pre_bind(self, cycle: Cycle, node: str) -> Sequence[Write]:
        self.journal.append("pre-bind")
        return ()

    def settled(self, cycle: Cycle, node: str) -> Verdict:
        return self.settles.pop(0) if self.settles else SUCCESS

    def post_bind(self, cycle: Cycle, node: str) -> None:
        self.journal.append("post-bind")


def interfered(**story: Any) -> tuple[list[Interfering], Callable[[Api], Api]]:
    made: list[Interfering] = []

    def around(api: Api) -> Api:
        made.append(Interfering(api))
        for name, value in story.items():
            setattr(made[0], name, value)
        return made[0]

    return made, around


# --- answers to a binding ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "bindings"),
    [
        pytest.param({"after": [UNKNOWN]}, 1, id="a time-out that took effect is not tried again"),
        pytest.param({"before": [UNKNOWN]}, 2, id="a time-out that took none is"),
        pytest.param({"before": [UNKNOWN, BUSY, UNKNOWN]}, 4, id="several failures in a row"),
        pytest.param({"before": [UNKNOWN] * 5}, 6, id="more than a binding cycle has patience for"),
        pytest.param({"before": [FORBIDDEN]}, 2, id="a refusal is tried again later, as a new attempt"),
        pytest.param({"before": [CONFLICT]}, 2, id="and so is a conflict"),
        pytest.param({"before": [MISSING]}, 2, id="and a pod that is said to be gone and is not"),
    ],
)
def test_a_binding_that_fails_gets_there_in_the_end(story: dict[str, list[ApiError]], bindings: int) -> None:
    @virtual
    async def run() -> None:
        keeper = Keeper()
        made, around = interfered(**{key: list(errors) for key, errors in story.items()})
        async with stage(keeper, around=around) as it:
            await it.create(kinds.POD, pod("a"))
            await pass_time(60)
            assert all(map(ready, await it.pods()))
            assert made[0].bindings == bindings
            assert keeper.journal[-3:] == ["reserve", "pre-bind", "post-bind"]
            assert keeper.journal.count("unreserve") == keeper.journal.count("reserve") - 1
            assert [name for name, _ in await events(it, "Scheduled")] == ["a"]

    run()


@virtual
async def test_a_pod_that_goes_away_while_it_is_bound_leaves_nothing_behind() -> None:
    made, around = interfered()
    keeper = Keeper()
    async with stage(keeper, around=around, nodes=1) as it:

        async def vanish() -> None:
            await it.delete(kinds.POD, "a", grace_seconds=0)

        made[0].first = vanish
        await it.create(kinds.POD, pod("a", "4"))
        await pass_time(3)
        assert keeper.journal == ["reserve", "pre-bind", "unreserve"]
        await it.create(kinds.POD, pod("b", "4"))
        await pass_time(5)
        assert await places(it) == {"b": "n1"}
        assert await events(it, "FailedScheduling") == []


@virtual
async def test_somebody_else_binds_the_pod_first() -> None:
    made, around = interfered()
    async with stage(around=around, nodes=2) as it:

        async def steal() -> None:
            uid = (await it.document(kinds.POD, "a"))["metadata"]["uid"]
            await it.client.bind("default", "a", uid=uid, node="n2")

        made[0].first = steal
        await it.create(kinds.POD, pod("a", "4"))
        await pass_time(5)
        await it.create(kinds.POD, pod("b", "4"))
        await it.create(kinds.POD, pod("c", "4"))
        await pass_time(5)
        assert {**await places(it), "b": None, "c": None} == {"a": "n2", "b": None, "c": None}
        await check_room(it)


# --- the place changes ------------------------------------------------------------------------------------------------


@virtual
async def test_a_foreign_pod_takes_the_room_before_binding() -> None:
    keeper = Keeper()
    keeper.settles = [wait("a moment")] * 2  # the second one when the pod shows where it is expected
    async with stage(keeper, nodes=1) as it:
        await it.create(kinds.POD, pod("ours", "3"))
        await pass_time(1)
        await it.create(kinds.POD, pod("theirs", "2", schedulerName="other", nodeName="n1"))
        await pass_time(20)
        assert await places(it) == {"ours": None, "theirs": "n1"}
        assert (await condition(it, "ours"))[2] == "0/1 nodes are available: 1 Insufficient cpu."
        told = [message for _, message in await events(it, "FailedScheduling")]
        assert told == [
            "another pod took the room on node n1 first",
            "0/1 nodes are available: 1 Insufficient cpu.",
        ]
        assert keeper.journal.count("reserve") == keeper.journal.count("unreserve") == 1
        await it.create(kinds.NODE, node("n2"))
        await pass_time(20)
        assert await places(it) == {"ours": "n2", "theirs": "n1"}


@virtual
async def test_the_node_is_deleted_before_binding() -> None:
    keeper = Keeper()
    keeper.settles = [wait("a moment")] * 2  # the second one when the pod shows where it is expected
    async with stage(keeper, nodes=1) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(1)
        await it.delete(kinds.NODE, "n1")
        await pass_time(3)
        assert await places(it) == {"a": None}
        await it.create(kinds.NODE, node("n2"))
        await pass_time(20)
        assert await places(it) == {"a": "n2"}


# --- Permit and PreBind -----------------------------------------------------------------------------------------------


@virtual
async def test_permit_waits_until_the_plugin_agrees() -> None:
    keeper = Keeper()
    keeper.permits = [wait("not yet"), wait("not yet"), SUCCESS]
    async with stage(keeper) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(15)
        assert all(map(ready, await it.pods()))
        assert keeper.journal == ["reserve", "pre-bind", "post-bind"]


@pytest.mark.parametrize(
    ("permits", "message"),
    [
        pytest.param([wait("not yet")], "Keeper did not permit it in time", id="not within its limit"),
        pytest.param([wait("not yet"), unschedulable("no")], "no", id="not at all"),
    ],
)
def test_permit_refuses(permits: list[Verdict], message: str) -> None:
    @virtual
    async def run() -> None:
        keeper = Keeper()
        keeper.permits = permits
        async with stage(keeper) as it:
            await it.create(kinds.POD, pod("a"))
            await pass_time(14)
            assert keeper.journal[:2] == ["reserve", "unreserve"]
            assert (await events(it, "FailedScheduling"))[0] == ("a", message)
            assert (await condition(it, "a"))[1] == "Unschedulable"

    run()


@pytest.mark.parametrize("at", ["permits", "settles"])
def test_a_pod_that_goes_away_while_it_waits_gives_back_what_it_took(at: str) -> None:
    @virtual
    async def run() -> None:
        keeper = Keeper()
        setattr(keeper, at, [wait("not yet")] * 100)
        keeper.patience = 600.0
        async with stage(keeper) as it:
            await it.create(kinds.POD, pod("a"))
            await pass_time(5)
            await it.delete(kinds.POD, "a", grace_seconds=0)
            await pass_time(5)
            assert keeper.journal[-1] == "unreserve"
            assert await events(it, "FailedScheduling") == []

    run()


@virtual
async def test_what_pre_bind_waits_for_never_comes() -> None:
    one, two = Keeper("One"), Keeper("Two")
    two.journal = one.journal
    two.settles = [wait("a moment"), error("it will never settle")]
    async with stage(one, two) as it:
        await it.create(kinds.POD, pod("a"))
        await pass_time(12)
        assert one.journal[:6] == ["reserve", "reserve", "pre-bind", "pre-bind", "unreserve", "unreserve"]
        await pass_time(12)
        assert all(map(ready, await it.pods()))
        assert await events(it, "FailedScheduling") == [("a", "Two: it will never settle")]


class Slow(PreBindPlugin):
    """Never done with pods whose name says so."""

    name: ClassVar[str] = "Slow"

    def pre_bind(self, cycle: Cycle, node: str) -> Sequence[Write]:
        return ()

    def settled(self, cycle: Cycle, node: str) -> Verdict:
        return wait("patience") if cycle.pod.metadata.name.startswith("slow") else SUCCESS


@virtual
async def test_pods_that_wait_for_others_hold_up_nobody() -> None:
    async with stage(Slow(), settings=Settings(ahead=2, writers=1, settle_limit=60.0)) as it:
        for number in range(4):
            await it.create(kinds.POD, pod(f"slow{number}"))
        await pass_time(5)
        for number in range(4):
            await it.create(kinds.POD, pod(f"quick{number}"))
        await pass_time(5)
        assert {name for name, where in (await places(it)).items() if where} == {f"quick{one}" for one in range(4)}
        await pass_time(65)
        assert (await condition(it, "slow0"))[2] == "Slow: not settled within 60 seconds, patience"


class Preempting(PostFilterPlugin):
    """Says that room will come free where less important pods are; others see to that."""

    name: ClassVar[str] = "Preempting"

    def post_filter(self, cycle: Cycle, refused: Mapping[str, Sequence[Refusal]]) -> tuple[Verdict, str]:
        pods = cycle.snapshot.pods.known.values()
        less = [one.node for one in pods if (one.pod.spec.priority or 0) < (cycle.pod.spec.priority or 0)]
        return (SUCCESS, less[0]) if less else (unschedulable("nobody is less important"), "")


@virtual
async def test_what_postfilter_nominates_is_told_and_its_room_is_kept() -> None:
    async with stage(Preempting(), nodes=2) as it:
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        for number in (1, 2):
            await it.create(kinds.POD, pod(f"low{number}", "4"))
        await pass_time(5)
        await it.create(kinds.POD, pod("vip", "4", priorityClassName="high"))
        await it.create(kinds.POD, pod("rival", "4"))
        await pass_time(5)
        vip = await it.document(kinds.POD, "vip")
        assert (await condition(it, "vip"))[1] == "Unschedulable"
        assert "nobody is less important" in ((await condition(it, "rival"))[2] or "")
        on = {where: name for name, where in (await places(it)).items()}
        nominated = vip["status"]["nominatedNodeName"]
        await it.delete(kinds.POD, on[nominated])
        await pass_time(15)
        assert (await places(it))["vip"] == nominated
        assert (await places(it))["rival"] is None
        assert "nominatedNodeName" not in (await it.document(kinds.POD, "vip"))["status"]


# --- gangs ------------------------------------------------------------------------------------------------------------


@virtual
async def test_a_gang_that_is_bound_half_way_is_completed_first_and_says_so() -> None:
    made, around = interfered()
    async with stage(around=around, nodes=1) as it:

        async def crowd() -> None:
            made[0].before = [FORBIDDEN]
            await it.create(kinds.POD, pod("rival", "2"))

        made[0].first = crowd
        await it.create(kinds.POD_GROUP, group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, member(name, "train", "2"))
        await pass_time(20)
        assert await places(it) == {"w1": "n1", "w2": "n1", "rival": None}
        [(name, message)] = await events(it, "Completing")
        assert name == "train"
        assert message.endswith("the gang is completed before anything else")


class Doubts(PermitPlugin):
    """Lets one pod wait, does not permit it, and does the next time."""

    name: ClassVar[str] = "Doubts"

    def __init__(self, about: str) -> None:
        super().__init__()
        self._about = about
        self._answers = [wait(), unschedulable("not yet")]

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        doubted = cycle.pod.metadata.name == self._about and self._answers
        return (self._answers.pop(0) if doubted else SUCCESS), 10.0


@virtual
async def test_a_gang_of_which_one_is_not_permitted_is_completed_first_and_says_so() -> None:
    async with stage(Doubts("w2"), nodes=1) as it:
        await it.create(kinds.POD_GROUP, group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, member(name, "train", "2"))
        await pass_time(0.5)
        await it.create(kinds.POD, pod("rival", "2"))
        await pass_time(20)
        assert await places(it) == {"w1": "n1", "w2": "n1", "rival": None}
        [(name, message)] = await events(it, "Completing")
        assert (name, message.split(";")[0]) == ("train", "pod w2 was not bound: not yet")


class Forbidding:
    """An Api that never binds one pod, and counts how often it is asked to."""

    def __init__(self, api: Api, name: str) -> None:
        self.asked = 0
        self.watch = api.watch
        self._api = api
        self._name = name

    async def call(self, request: Request) -> Response:
        if request.subresource == "binding" and request.name == self._name:
            self.asked += 1
            raise FORBIDDEN
        return await self._api.call(request)


@virtual
async def test_a_gang_that_cannot_be_completed_backs_off_whoever_else_comes() -> None:
    made: list[Forbidding] = []

    def around(api: Api) -> Api:
        made.append(Forbidding(api, "w2"))
        return made[0]

    async with stage(around=around, cpu="64") as it:
        await it.create(kinds.POD_GROUP, group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, member(name, "train"))
        for number in range(60):
            await it.create(kinds.POD, pod(f"other{number}", "100m"))
            await pass_time(0.1)
        assert made[0].asked == 3  # at once, after one second and after two more
        assert None not in [where for name, where in (await places(it)).items() if name != "w2"]


@virtual
async def test_room_that_becomes_free_goes_to_a_broken_gang_whatever_back_off_is_left() -> None:
    made, around = interfered()
    async with stage(around=around, nodes=1) as it:

        async def crowd() -> None:
            made[0].before = [FORBIDDEN]
            await it.create(kinds.POD, pod("thief", "2", schedulerName="other", nodeName="n1"))

        made[0].first = crowd
        await it.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
        await it.create(kinds.POD_GROUP, group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, member(name, "train", "2"))
        await pass_time(4)
        for number in range(8):
            await it.create(kinds.POD, pod(f"rival{number}", "1", priorityClassName="high"))
            await pass_time(0.1)
        await it.delete(kinds.POD, "thief", grace_seconds=0)
        await pass_time(3)
        assert (await places(it))["w2"] == "n1"


# --- bugs and leaks ---------------------------------------------------------------------------------------------------


class Explosive(FilterPlugin):
    """Breaks on pods whose name says so."""

    name: ClassVar[str] = "Explosive"

    def pre_filter(self, cycle: Cycle) -> Verdict:
        if cycle.pod.metadata.name == "bad":
            raise RuntimeError("boom")
        return SUCCESS

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        return cycle.snapshot.nodes.present[rows]

    def refusals(self, cycle: Cycle, rows: Any) -> list[Any]:
        return []


@virtual
async def test_a_plugin_that_breaks_on_one_pod_does_not_stop_the_others() -> None:
    async with stage(Explosive()) as it:
        for name, cpu in (("a", "1"), ("bad", "2"), ("c", "1")):
            await it.create(kinds.POD, pod(name, cpu))
        await pass_time(20)
        assert {name for name, where in (await places(it)).items() if where} == {"a", "c"}
        assert await condition(it, "bad") == ("False", "SchedulerError", "RuntimeError: boom")


class Blind:
    """An Api whose watches keep quiet about a pod once it is bound."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._signs = (f'"name":"{name}"'.encode(), b'"nodeName":')
        self.call = api.call

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if request.resource.plural != "pods" or not all(sign in event for sign in self._signs):
                yield event


@pytest.mark.parametrize(
    ("deleted", "fits"), [pytest.param(True, True, id="it is gone"), pytest.param(False, False, id="it is there")]
)
def test_an_assumption_that_no_event_confirms_is_looked_up(deleted: bool, fits: bool) -> None:
    @virtual
    async def run() -> None:
        settings = Settings(leak_check=5.0, leak_age=10.0)
        async with stage(around=lambda api: Blind(api, "a"), nodes=1, settings=settings) as it:
            await it.create(kinds.POD, pod("a", "4"))
            await pass_time(2)
            if deleted:
                await it.delete(kinds.POD, "a", grace_seconds=0)
            await it.create(kinds.POD, pod("b", "4"))
            await pass_time(3)
            assert (await places(it))["b"] is None
            await pass_time(30)
            assert ((await places(it))["b"] == "n1") is fits

    run()


@virtual
async def test_an_assumption_that_a_clock_put_back_made_young_is_looked_up_too() -> None:
    async with world(nodes=1) as it:
        clock = PutBack(it.clock)
        async with scheduler(Blind(it.api, "a"), clock, settings=Settings(leak_check=5.0)):
            await it.create(kinds.POD, pod("a", "4"))
            await pass_time(2)
            await it.delete(kinds.POD, "a", grace_seconds=0)
            clock.by = 3600.0
            await it.create(kinds.POD, pod("b", "4"))
            await pass_time(20)
            assert await places(it) == {"b": "n1"}


class ByLetter(BindPlugin):
    """Asks somebody else, by a label on the node, to bind the pods whose name says so."""

    name: ClassVar[str] = "ByLetter"

    def bind(self, cycle: Cycle, node: str) -> Sequence[Write] | None:
        if not cycle.pod.metadata.name.startswith("letter"):
            return None
        there, label = cycle.snapshot.node(node), {"metadata": {"labels": {"bind": cycle.pod.metadata.name}}}
        version = there.metadata.resource_version if there else ""
        return [Write(kind=kinds.NODE, namespace=None, name=node, changes=label, resource_version=version)]


@virtual
async def test_a_bind_plugin_gets_pods_bound_in_its_own_way_and_leaves_others_to_a_binding() -> None:
    made, around = interfered()
    async with stage(ByLetter(), around=around, nodes=1, settings=Settings(settle_limit=30.0)) as it:
        await it.create(kinds.POD, pod("letter"))
        await it.create(kinds.POD, pod("plain"))
        await pass_time(5)
        assert (await places(it))["letter"] is None
        assert (await it.document(kinds.NODE, "n1", None))["metadata"]["labels"]["bind"] == "letter"
        [waiting] = [one for one in await it.pods() if one.metadata.name == "letter"]
        await it.client.bind("default", "letter", uid=waiting.metadata.uid, node="n1")
        await pass_time(5)
        assert all(map(ready, await it.pods()))
        assert made[0].bindings == 1
        assert {name for name, _ in await events(it, "Scheduled")} == {"letter", "plain"}


@virtual
async def test_a_bind_plugin_that_binds_nothing_in_time_gives_the_room_back() -> None:
    async with stage(ByLetter(), nodes=1, settings=Settings(settle_limit=30.0)) as it:
        await it.create(kinds.POD, pod("letter", "4"))
        await pass_time(31)
        assert (await condition(it, "letter"))[2] == "ByLetter: not bound to node n1 within 30 seconds"


class ByName(QueueSortPlugin):
    """The last names first, however important."""

    name: ClassVar[str] = "ByName"

    def key(self, pod: Pod) -> Any:
        return [-ord(letter) for letter in pod.metadata.name]


@virtual
async def test_a_queue_sort_plugin_decides_who_comes_first() -> None:
    async with stage(ByName(), nodes=0) as it:
        for name in ("a", "c", "b"):
            await it.create(kinds.POD, pod(name, "4"))
        await pass_time(5)
        await it.create(kinds.NODE, node("n1"))
        await pass_time(30)
        assert [name for name, where in (await places(it)).items() if where] == ["c"]
