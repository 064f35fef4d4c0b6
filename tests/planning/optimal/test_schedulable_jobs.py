"""A plan is for those whom the scheduler would place: whom it refuses, a plan refuses in the same words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import Guarantee, ObjectMeta, Pod, PodGroup, PodGroupSpec, Queue
from restow.model.snapshot import Snapshot
from restow.planning.plan import Plan
from restow.scheduling.decisions import RefusePod
from restow.scheduling.gang_readiness import ROLE_ANNOTATION
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import read_profile
from restow.scheduling.session import PendingWork, Session
from tests.model.cluster.builders import of_queue, pod, queue, reservation
from tests.planning.clusters import ENGINE, NOW, annotated, app, cluster, reasons, ten
from tests.planning.optimal.optimal_plans import planned, waits


def crowded() -> Snapshot:
    """Two nodes with room for five cores each."""
    return cluster([ten("a"), ten("b")], [app("a1", "5", on="a"), app("b1", "5", on="b")])


def pod_groups(pods: list[Pod], *queues: Queue, **gang: Any) -> PodGroupCache:
    known = PodGroupCache()
    for each in queues:
        known.queues.apply(each)
    if gang:
        known.apply_group(PodGroup(metadata=ObjectMeta(name="ring", namespace="default"), spec=PodGroupSpec(**gang)))
    for one in pods:
        known.apply_pod(one)
    return known


def member(name: str, role: str = "worker") -> Pod:
    return annotated(waits(name, "1"), {"scheduling.k8s.io/group-name": "ring", ROLE_ANNOTATION: role})


def named(name: str, cpu: str = "2") -> Pod:
    return of_queue(waits(name, cpu), "q")


def asked(pods: list[Pod], known: PodGroupCache, snapshot: Snapshot | None = None) -> Plan:
    return planned(snapshot or crowded(), objective="pending", pending=tuple(pods), pod_groups=known)


def said_by_scheduler(pods: list[Pod], known: PodGroupCache) -> dict[str, str]:
    session = Session(crowded(), ENGINE, known, PendingWork(pods), now=NOW)
    decided = session.run(read_profile({}).actions)
    return {one.pod.metadata.name: one.message for one in decided if isinstance(one, RefusePod)}


PODS = [named("p1"), named("p2")]
OTHERS = [waits(f"p{number}", "2") for number in range(4)]
GUARANTEED = queue("q", guarantee=Guarantee(resource={"cpu": "16"}))
GANG = [member("g1"), member("g2")]
NEEDS_MORE = {"cpu": "1000"}
INSISTS = [annotated(waits("p", "1"), {"restow.sh/use-reservation": "none"})]


@pytest.mark.parametrize(
    ("pods", "known"),
    [
        pytest.param(PODS, pod_groups(PODS), id="a queue that does not exist"),
        pytest.param(PODS, pod_groups(PODS, queue("q", state="Closed")), id="a queue that is closed"),
        pytest.param(PODS, pod_groups(PODS, queue("q", parent="other")), id="a queue with a parent"),
        pytest.param(
            PODS, pod_groups(PODS, queue("q", capability={"cpu": "3"})), id="a queue that can take one of two"
        ),
        pytest.param(OTHERS, pod_groups(OTHERS, GUARANTEED), id="a queue that would take what is guaranteed to others"),
        pytest.param(GANG, pod_groups(GANG), id="a gang that does not exist"),
        pytest.param(GANG, pod_groups(GANG, min_member=3), id="a gang that lacks a member"),
        pytest.param(
            GANG, pod_groups(GANG, min_member=2, min_task_member={"chief": 1}), id="a gang that lacks its chief"
        ),
        pytest.param(GANG, pod_groups(GANG, min_member=2, min_resources=NEEDS_MORE), id="a gang that is not let in"),
        pytest.param(INSISTS, pod_groups(INSISTS), id="a pod that insists on a reservation"),
    ],
)
def test_whom_the_scheduler_refuses_a_plan_refuses_in_the_same_words(pods: list[Pod], known: PodGroupCache) -> None:
    plan, said = asked(pods, known), said_by_scheduler(pods, known)
    assert said
    assert {name: why for name, why in reasons(plan).items() if name} == said
    assert (plan.after["pendingPods"], len(plan.places)) == (len(pods), len(pods) - len(said))


def test_a_queue_takes_no_more_than_it_may_and_the_bound_knows() -> None:
    pods = [named(f"p{number}", "1") for number in range(5)]
    plan = asked(pods, pod_groups(pods, queue("q", capability={"cpu": "3"})))
    assert (plan.after["placedPods"], plan.bound, plan.moves) == (3, 3.0, ())


def test_a_pod_that_has_a_seat_needs_no_room() -> None:
    snapshot = cluster([ten("a")], [app("a1", "8", on="a")])
    snapshot.apply_reservation(reservation("kept", {0: "a"}, requests={"cpu": "2"}))
    web = pod("web", {"cpu": "2"}, labels={"app": "web"}, phase="Pending")
    plan = asked([web], pod_groups([web]), snapshot)
    assert (plan.moves, plan.places) == ((), ())
    assert reasons(plan)[""] == "1 of 1 pending pods have the seat of a reservation"


def test_a_gang_that_has_started_is_completed_pod_by_pod() -> None:
    first = replace(member("g0"), spec=replace(member("g0").spec, node_name="a"))
    large = [replace(member(name), spec=waits(name, "5").spec) for name in ("g1", "g2", "g3")]
    known = pod_groups([first, *large], min_member=4)
    snapshot = cluster([ten("a"), ten("b")], [first, app("a1", "4", on="a"), app("b1", "5", on="b")])
    assert asked(large, known, snapshot).after["placedPods"] == 2


def of_web(name: str, cpu: str, *, gang: bool = False) -> Pod:
    made = pod(name, {"cpu": cpu}, labels={"app": "web"}, phase="Pending")
    return annotated(made, {"scheduling.k8s.io/group-name": "ring"}) if gang else made


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([of_web("large", "5")], id="a pod"),
        pytest.param([of_web("g1", "2", gang=True), of_web("g2", "3", gang=True)], id="a gang"),
    ],
)
def test_whoever_gets_room_beside_its_seats_needs_no_moves(pods: list[Pod]) -> None:
    snapshot = cluster([ten("a"), ten("b")], [app("a1", "2", on="a"), app("a2", "3", on="a"), app("b1", "6", on="b")])
    held = reservation("kept", {0: "a"}, requests={"cpu": "2"})
    snapshot.apply_reservation(replace(held, spec=replace(held.spec, match_policy="Fits")))
    plan = asked(pods, pod_groups(pods, **({"min_member": 2} if len(pods) > 1 else {})), snapshot)
    assert (plan.moves, plan.places) == ((), ())
    assert f"{len(pods)} of {len(pods)} pending pods have the seat of a reservation" in reasons(plan)[""]
