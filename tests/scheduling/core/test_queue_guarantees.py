"""Guarantees as quota: other queues leave a guarantee free, and a queue inside its own is never held up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import Condition, Guarantee, GuaranteePercentage, Pod, PodGroup, Queue
from restow.scheduling.queue_shares import QueueShares
from tests.scheduling.core.sample_plugins import nodes
from tests.scheduling.core.session_fixture import SessionFixture, gang, queue, task


def guaranteed(name: str, rejected: str | None = None, **fields: Any) -> Queue:
    """A queue with a guarantee; `cpu` for short."""
    cpu, percentage = fields.pop("cpu", None), fields.pop("percentage", None)
    written = Guarantee(
        resource={"cpu": cpu} if cpu else None,
        percentage=GuaranteePercentage(value=percentage) if percentage is not None else None,
    )
    one = queue(name, guarantee=written, **fields)
    conditions = [Condition(type="Rejected", status=rejected)] if rejected else None
    return replace(one, status=replace(one.status, conditions=conditions))


def of(name: str, count: int, cpu: str = "1", **fields: Any) -> list[Pod]:
    return [task(f"{name}{number}", requests={"cpu": cpu}, queue=name, **fields) for number in range(count)]


def placed(fixture: SessionFixture) -> dict[str, int]:
    return dict(Counter(name[0] for name in fixture.placed))


EIGHT = nodes(2)
"""Eight cores in all."""


@pytest.mark.parametrize(
    ("others", "at_most"),
    [
        pytest.param(guaranteed("g", cpu="3"), 5, id="an amount"),
        pytest.param(guaranteed("g", percentage=0.5), 4, id="a share of the nodes"),
        pytest.param(guaranteed("g", cpu="3", rejected="True"), 8, id="rejected"),
        pytest.param(guaranteed("g", cpu="3", rejected="False"), 5, id="accepted"),
        pytest.param(guaranteed("g", cpu="9"), 8, id="more than there is"),
        pytest.param(guaranteed("g", cpu="3", capability={"cpu": "2"}), 8, id="more than its own capability"),
        pytest.param(guaranteed("g", cpu="three"), 8, id="not a quantity"),
        pytest.param(guaranteed("g", cpu="3", state="Closing"), 8, id="of a queue that is closed"),
        pytest.param(queue("g"), 8, id="none"),
    ],
)
def test_other_queues_leave_a_guarantee_free(others: Queue, at_most: int) -> None:
    assert placed(SessionFixture(*EIGHT, queues=[others, queue("o")]).run(*of("o", 9))) == {"o": at_most}


def test_guarantee_refusal_shows_the_numbers() -> None:
    running = [task("r", requests={"cpu": "1"}, queue="g", on="n0")]
    fixture = SessionFixture(*EIGHT, running=running, queues=[guaranteed("g", cpu="4"), queue("o")]).run(
        *of("o", 2, "3")
    )
    assert fixture.refused == {
        "o1": "queue o would take what is guaranteed to other queues: cpu (total 8, used 4, kept 3, requested 3)"
    }


def test_other_queues_together_take_no_more_than_one_alone() -> None:
    fixture = SessionFixture(*EIGHT, queues=[guaranteed("g", cpu="3"), queue("o"), queue("p")])
    assert sum(placed(fixture.run(*of("o", 9), *of("p", 9))).values()) == 5


def test_queue_gets_its_guarantee_however_late_its_pods_come() -> None:
    fixture = SessionFixture(*EIGHT, queues=[guaranteed("g", cpu="3"), queue("o", priority=9)])
    fixture.run(*of("o", 9))
    assert placed(fixture.run(*of("g", 4))) == {"g": 3}


def test_used_up_guarantee_keeps_nothing_from_other_queues() -> None:
    running = of("g", 3, on="n0")
    assert placed(
        SessionFixture(*EIGHT, running=running, queues=[guaranteed("g", cpu="3"), queue("o")]).run(*of("o", 9))
    ) == {"o": 5}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(guaranteed("g", cpu="1"), queue("o", weight=99), id="below its guarantee, before a smaller share"),
        pytest.param(queue("g", priority=1), guaranteed("o", cpu="1"), id="priority comes before everything"),
    ],
)
def test_queue_order_follows_priority_guarantee_and_share(first: Queue, second: Queue) -> None:
    names = [one.metadata.name for one in (first, second)]
    fixture = SessionFixture(
        *EIGHT, queues=[first, second], running=[task("r", None, {"cpu": "500m"}, queue="g", on="n0")]
    )
    shares = QueueShares(fixture.pod_groups, fixture.snapshot)
    assert sorted(names, key=shares.order) == ["g", "o"]


# --- the gate ---------------------------------------------------------------------------------------------------------


def group(name: str, cpu: str, whose: str) -> PodGroup:
    return gang(name, 1, "Pending", min_resources={"cpu": cpu}, queue=whose)


@pytest.mark.parametrize(
    ("needs", "let_in"),
    [
        pytest.param(["2"], ["g0"], id="inside"),
        pytest.param(["2", "2"], ["g0"], id="the second goes beyond"),
        pytest.param(["1", "2"], ["g0", "g1"], id="both inside"),
        pytest.param(["4"], [], id="beyond at once"),
    ],
)
def test_gang_inside_its_guarantee_is_admitted_however_full_the_cluster_is(needs: list[str], let_in: list[str]) -> None:
    full = [task("x", requests={"cpu": "4"}, on=name) for name in ("n0", "n1")]
    full = [replace(one, metadata=replace(one.metadata, uid=f"x{n}", name=f"x{n}")) for n, one in enumerate(full)]
    full.append(task("more", requests={"cpu": "1600m"}, on="n0"))
    groups = [group(f"g{number}", cpu, "g") for number, cpu in enumerate(needs)]
    fixture = SessionFixture(*EIGHT, running=full, groups=groups, queues=[guaranteed("g", cpu="3")])
    fixture.run(*(task(f"t{one.metadata.name}", one.metadata.name) for one in groups))
    assert [name for name, status in sorted(fixture.statuses.items()) if status.phase != "Pending"] == let_in


def test_closed_queue_admits_nothing_whatever_its_guarantee() -> None:
    fixture = SessionFixture(*EIGHT, groups=[group("g0", "1", "g")], queues=[guaranteed("g", state="Closed", cpu="3")])
    assert fixture.run(task("t", "g0")).refused == {"t": "queue g is Closed"}


# --- what is not supported --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parent", ["eng", "root", "", None])
def test_queue_with_a_parent_is_refused_by_name(parent: str | None) -> None:
    refused = SessionFixture(*EIGHT, queues=[queue("o", parent=parent)]).run(*of("o", 1)).refused
    message = "queue o has the parent eng: Restow does not support spec.parent of queues"
    assert refused == ({"o0": message} if parent == "eng" else {})


# --- whatever happens -------------------------------------------------------------------------------------------------

names = st.sampled_from("abc")


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(names, st.integers(0, 4), max_size=3),
    st.lists(st.lists(st.tuples(names, st.integers(1, 3)), max_size=8), min_size=1, max_size=3),
)
def test_guarantees_that_fit_can_always_be_used_up(
    promised: dict[str, int], rounds: list[list[tuple[str, int]]]
) -> None:
    if sum(promised.values()) > 12:
        promised = {}
    queues = [guaranteed(name, cpu=str(promised[name])) if promised.get(name) else queue(name) for name in "abc"]
    fixture, number = SessionFixture(*nodes(12, allocatable={"cpu": "1", "pods": "99"}), queues=queues), 0
    for asked in rounds:
        pods = [task(f"{name}{number + place}", queue=name) for place, (name, n) in enumerate(asked) for _ in range(n)]
        pods = [replace(one, metadata=replace(one.metadata, uid=f"u{number + k}")) for k, one in enumerate(pods)]
        number += len(pods)
        fixture.run(*pods)
    for name, amount in promised.items():
        used = QueueShares(fixture.pod_groups, fixture.snapshot).used(name).get("cpu", 0) // 1000
        missing = [task(f"{name}-{k}", queue=name) for k in range(max(amount - used, 0))]
        assert not fixture.run(*missing).refused
