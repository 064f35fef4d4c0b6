"""Plans for pending pods: a pod that the scheduler refuses is refused in the same words."""

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
from tests.planning.clusters import ENGINE, NOW, app, node_of_ten, refusal_reasons, snapshot_of, with_annotations
from tests.planning.optimal.optimal_plans import checked_plan, pending_pod


def crowded() -> Snapshot:
    """Two nodes with room for five cores each."""
    return snapshot_of([node_of_ten("a"), node_of_ten("b")], [app("a1", "5", on="a"), app("b1", "5", on="b")])


def pod_groups(pods: list[Pod], *queues: Queue, **gang: Any) -> PodGroupCache:
    known = PodGroupCache()
    for each in queues:
        known.queues.apply(each)
    if gang:
        known.apply_group(PodGroup(metadata=ObjectMeta(name="ring", namespace="default"), spec=PodGroupSpec(**gang)))
    for pending in pods:
        known.apply_pod(pending)
    return known


def gang_member(name: str, role: str = "worker") -> Pod:
    return with_annotations(pending_pod(name, "1"), {"scheduling.k8s.io/group-name": "ring", ROLE_ANNOTATION: role})


def queue_pod(name: str, cpu: str = "2") -> Pod:
    return of_queue(pending_pod(name, cpu), "q")


def plan_for_pending(pods: list[Pod], known: PodGroupCache, snapshot: Snapshot | None = None) -> Plan:
    return checked_plan(snapshot or crowded(), objective="pending", pending=tuple(pods), pod_groups=known)


def scheduler_refusals(pods: list[Pod], known: PodGroupCache) -> dict[str, str]:
    session = Session(crowded(), ENGINE, known, PendingWork(pods), now=NOW)
    decided = session.run(read_profile({}).actions)
    return {one.pod.metadata.name: one.message for one in decided if isinstance(one, RefusePod)}


PODS = [queue_pod("p1"), queue_pod("p2")]
OTHERS = [pending_pod(f"p{number}", "2") for number in range(4)]
GUARANTEED = queue("q", guarantee=Guarantee(resource={"cpu": "16"}))
GANG = [gang_member("g1"), gang_member("g2")]
NEEDS_MORE = {"cpu": "1000"}
INSISTS = [with_annotations(pending_pod("p", "1"), {"restow.sh/use-reservation": "none"})]


@pytest.mark.parametrize(
    ("pods", "known"),
    [
        pytest.param(PODS, pod_groups(PODS), id="a queue that does not exist"),
        pytest.param(PODS, pod_groups(PODS, queue("q", state="Closed")), id="a queue that is closed"),
        pytest.param(PODS, pod_groups(PODS, queue("q", parent="other")), id="a queue with a parent"),
        pytest.param(PODS, pod_groups(PODS, queue("q", capability={"cpu": "3"})), id="queue with room for one of two"),
        pytest.param(OTHERS, pod_groups(OTHERS, GUARANTEED), id="a queue that would take what is guaranteed to others"),
        pytest.param(GANG, pod_groups(GANG), id="a gang that does not exist"),
        pytest.param(GANG, pod_groups(GANG, min_member=3), id="a gang that lacks a member"),
        pytest.param(
            GANG, pod_groups(GANG, min_member=2, min_task_member={"chief": 1}), id="a gang that lacks its chief"
        ),
        pytest.param(GANG, pod_groups(GANG, min_member=2, min_resources=NEEDS_MORE), id="gang that is not admitted"),
        pytest.param(INSISTS, pod_groups(INSISTS), id="pod that requests a reservation by name"),
    ],
)
def test_pods_refused_by_the_scheduler_are_refused_in_the_same_words(pods: list[Pod], known: PodGroupCache) -> None:
    plan, said = plan_for_pending(pods, known), scheduler_refusals(pods, known)
    assert said
    assert {name: why for name, why in refusal_reasons(plan).items() if name} == said
    assert (plan.after["pendingPods"], len(plan.places)) == (len(pods), len(pods) - len(said))


def test_queue_capability_limits_places_and_bound() -> None:
    pods = [queue_pod(f"p{number}", "1") for number in range(5)]
    plan = plan_for_pending(pods, pod_groups(pods, queue("q", capability={"cpu": "3"})))
    assert (plan.after["placedPods"], plan.bound, plan.moves) == (3, 3.0, ())
    assert "2 of 5 pending pods are not placed" in refusal_reasons(plan)[""]


def test_pods_larger_than_every_node_are_proven_to_have_no_place() -> None:
    pods = [pending_pod(name, "11") for name in ("p1", "p2")]
    plan = plan_for_pending(pods, pod_groups(pods))
    assert (plan.bound, plan.places) == (0, ())
    assert "none of 2 pending pods can be placed with at most " in refusal_reasons(plan)[""]


def test_pod_with_a_seat_needs_no_place() -> None:
    snapshot = snapshot_of([node_of_ten("a")], [app("a1", "8", on="a")])
    snapshot.apply_reservation(reservation("kept", {0: "a"}, requests={"cpu": "2"}))
    web = pod("web", {"cpu": "2"}, labels={"app": "web"}, phase="Pending")
    plan = plan_for_pending([web], pod_groups([web]), snapshot)
    assert (plan.moves, plan.places) == ((), ())
    assert refusal_reasons(plan)[""] == "1 of 1 pending pods have the seat of a reservation"


def test_started_gang_is_completed_pod_by_pod() -> None:
    first = replace(gang_member("g0"), spec=replace(gang_member("g0").spec, node_name="a"))
    large = [replace(gang_member(name), spec=pending_pod(name, "5").spec) for name in ("g1", "g2", "g3")]
    known = pod_groups([first, *large], min_member=4)
    snapshot = snapshot_of(
        [node_of_ten("a"), node_of_ten("b")], [first, app("a1", "4", on="a"), app("b1", "5", on="b")]
    )
    assert plan_for_pending(large, known, snapshot).after["placedPods"] == 2


def web_pod(name: str, cpu: str, *, gang: bool = False) -> Pod:
    made = pod(name, {"cpu": cpu}, labels={"app": "web"}, phase="Pending")
    return with_annotations(made, {"scheduling.k8s.io/group-name": "ring"}) if gang else made


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([web_pod("large", "5")], id="a pod"),
        pytest.param([web_pod("g1", "2", gang=True), web_pod("g2", "3", gang=True)], id="a gang"),
    ],
)
def test_pods_that_fit_beside_their_seats_need_no_moves(pods: list[Pod]) -> None:
    snapshot = snapshot_of(
        [node_of_ten("a"), node_of_ten("b")], [app("a1", "2", on="a"), app("a2", "3", on="a"), app("b1", "6", on="b")]
    )
    held = reservation("kept", {0: "a"}, requests={"cpu": "2"})
    snapshot.apply_reservation(replace(held, spec=replace(held.spec, match_policy="Fits")))
    plan = plan_for_pending(pods, pod_groups(pods, **({"min_member": 2} if len(pods) > 1 else {})), snapshot)
    assert (plan.moves, plan.places) == ((), ())
    assert f"{len(pods)} of {len(pods)} pending pods have the seat of a reservation" in refusal_reasons(plan)[""]
