"""Admission check: would a pod that comes now be admitted to a seat?"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Reservation,
    SelectorSpec,
    TopologySpreadConstraint,
)
from restow.model.reservations.seat_name import SeatName
from restow.model.snapshot import Snapshot
from restow.scheduling.seat_checks.admission_check import IncomingPod, why_not_admitted
from tests.model.cluster.builders import node, pod, queue
from tests.model.reservations.builders import (
    CONTAINER_WITH_HOST_PORT,
    FITS_POLICY,
    OWNER,
    WHOLE_NODE,
    task,
    web_pod,
    web_reservation,
    with_host_port,
)
from tests.scheduling.reservations.session_cluster import PROFILE, SessionCluster, named_nodes

OLD = web_pod("old", {"cpu": "1"}, on="n1")


def why_refused(cluster: SessionCluster, comes: Pod = OLD, *before: Pod, of: str = "default") -> str:
    """What the last seat that is asked about says."""
    snapshot: Snapshot = cluster.snapshot
    seats = [one for one in snapshot.reservations.seats("default", "r") if one.is_open]
    was = snapshot.reservations.reserved_pods.names(), snapshot.room.free.tolist(), snapshot.pods.known.keys() | ()
    last, others = IncomingPod(comes, of, OLD.metadata.uid), [IncomingPod(one, of, one.metadata.uid) for one in before]
    answers = why_not_admitted(snapshot, PROFILE.engine, seats, last, others, now=0.0)
    assert (
        snapshot.reservations.reserved_pods.names(),
        snapshot.room.free.tolist(),
        snapshot.pods.known.keys() | (),
    ) == was
    return list(answers.values())[-1]


def seat(requests: Any = None, **fields: Any) -> Reservation:
    return web_reservation("r", task(1, requests or WHOLE_NODE), at={0: "n2"}, **FITS_POLICY, **fields)


def test_incoming_pod_is_admitted_to_its_seat_on_a_full_node() -> None:
    assert why_refused(SessionCluster(*named_nodes("n1", "n2"), OLD, seat())) == ""


@pytest.mark.parametrize(
    "there, comes, why",
    [
        pytest.param(pod("thief", {"cpu": "1"}, on="n2"), OLD, "Insufficient cpu", id="room of the seat"),
        pytest.param(
            with_host_port(pod("port", {}, on="n2")), with_host_port(OLD), "free ports", id="a port that the seat lacks"
        ),
    ],
)
def test_incoming_pod_is_refused_because_of_other_pods(there: Pod, comes: Pod, why: str) -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), OLD, seat(), there)
    assert why in why_refused(cluster, comes)


def test_pod_larger_than_the_seat_needs_room_beside_it() -> None:
    large = web_pod("old", {"cpu": "2"}, on="n1")
    cluster = SessionCluster(*named_nodes("n1", "n2"), large, seat({"cpu": "1"}), pod("other", {"cpu": "2"}, on="n2"))
    assert why_refused(cluster, large) == ""
    cluster.show(pod("another", {"cpu": "1"}, on="n2"))
    assert "Insufficient cpu" in why_refused(cluster, large)


def test_admission_checks_the_incoming_pod_not_the_reserved_pod() -> None:
    """Its template has an anti-affinity and a host port that the pods that come do not have."""
    wants: dict[str, Any] = {"init_containers": [replace(CONTAINER_WITH_HOST_PORT[0], restart_policy="Always")]}
    made = web_reservation("r", task(1, {"cpu": "1"}, **wants), at={0: "n2"}, **FITS_POLICY)
    assert (
        why_refused(SessionCluster(*named_nodes("n1", "n2"), OLD, made, with_host_port(pod("port", {}, on="n2")))) == ""
    )


def test_consumed_seat_admits_no_other_pod() -> None:
    """Its consumption is not recorded yet."""
    cluster = SessionCluster(*named_nodes("n1", "n2"), OLD, seat({"cpu": "1"}))
    assert why_refused(cluster) == ""
    cluster.show(web_pod("new", {"cpu": "1"}, on="n2", seat="default/r/t/0"))
    assert why_refused(cluster) == "pod default/new has consumed it"


def test_node_locked_since_admits_pods_of_the_seat_queue() -> None:
    cluster = SessionCluster(*named_nodes("n1", "n2"), OLD, seat(queue="mine"))
    cluster.show(queue("theirs", "n2"))
    assert why_refused(cluster, of="mine") == ""
    assert why_refused(cluster) != ""


ZONE = "topology.kubernetes.io/zone"


def apart(**term: Any) -> Affinity:
    """Not in a zone with pods that have the label app=web."""
    selector = SelectorSpec(match_labels={"app": "web"})
    term = {"topology_key": ZONE, "label_selector": selector, **term}
    return Affinity(pod_anti_affinity=PodAffinity(required=[PodAffinityTerm(**term)]))


def zoned() -> list[Node]:
    return [node(name, labels={ZONE: "a"}) for name in ("n1", "n2")]


def test_replaced_pod_does_not_count_for_affinity() -> None:
    """It must not be in one zone with others that are like it, and moves within its zone."""
    comes = web_pod("old", {"cpu": "1"}, on="n1", affinity=apart())
    cluster = SessionCluster(*zoned(), comes, seat())
    assert why_refused(cluster, comes) == ""
    cluster.show(web_pod("sibling", {"cpu": "1"}, on="n1"))
    assert "anti-affinity" in why_refused(cluster, comes)


def test_match_label_keys_use_the_labels_of_the_incoming_pod() -> None:
    """The anti-affinity is about pods of its own revision; the only other pod is of an earlier one."""
    affinity = apart(match_label_keys=["revision"])
    comes = web_pod("old", {"cpu": "1"}, on="n1", labels={"app": "web", "revision": "2"}, affinity=affinity)
    sibling = web_pod("sibling", {"cpu": "1"}, on="n1", labels={"app": "web", "revision": "1"})
    assert why_refused(SessionCluster(*zoned(), comes, seat(), sibling), comes) == ""


def test_unknown_node_admits_no_pod() -> None:
    cluster = SessionCluster(*named_nodes("n1"), OLD, seat())
    assert why_refused(cluster) == "there is no such node"


def test_cordoned_node_admits_no_pod() -> None:
    cluster = SessionCluster(*named_nodes("n1"), node("n2", unschedulable=True), OLD, seat())
    assert "unschedulable" in why_refused(cluster)
    assert SeatName("default", "r", "t", 0) in cluster.snapshot.reservations.reserved_pods


def seats(*nodes: str) -> Reservation:
    return web_reservation("r", task(len(nodes), {"cpu": "1"}), at=dict(enumerate(nodes)), **FITS_POLICY)


def test_pods_before_take_their_seats_first() -> None:
    """Each of them could have its seat, if it were not for the other."""
    first, last = with_host_port(web_pod("first", on="n1")), with_host_port(OLD)
    cluster = SessionCluster(*named_nodes("n1", "n2", "n3"), first, last, seats("n2", "n2"))
    assert why_refused(cluster, last) == ""
    assert "free ports" in why_refused(cluster, last, first)
    assert why_refused(cluster, OLD, first) == ""
    cluster.show(seats("n2", "n3"))
    assert why_refused(cluster, last, first) == ""


def test_pods_replaced_before_count_only_for_room() -> None:
    """Spread evenly, one more in the second zone is too many, unless one of the first zone goes there as well."""
    evenly = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=OWNER.label_selector
    )
    spread: dict[str, Any] = {"topology_spread_constraints": [evenly]}
    old, first = web_pod("old", {"cpu": "1"}, on="n1", **spread), web_pod("first", {"cpu": "1"}, on="n2", **spread)
    zones = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}), node("n3", labels={"zone": "a"})]
    cluster = SessionCluster(*zones, node("n4", labels={"zone": "b"}), old, first, seats("n3", "n4"))
    assert why_refused(cluster, old, first) == ""
    cluster = SessionCluster(*zones, node("n4", labels={"zone": "b"}), old, first, seats("n4", "n4"))
    assert "spread" in why_refused(cluster, old, first)


def test_pod_before_that_is_refused_takes_no_seat() -> None:
    large = web_pod("large", {"cpu": "3"}, on="n1")
    cluster = SessionCluster(
        *named_nodes("n1", "n2"), large, OLD, seats("n2", "n2"), pod("other", {"cpu": "2"}, on="n2")
    )
    assert why_refused(cluster, OLD, large) == ""
