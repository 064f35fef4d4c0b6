"""The pod leaves or has left, and no pod has taken its seat yet."""

from __future__ import annotations

from msgspec.structs import replace

from restow.migration.effective_options import EffectiveOptions
from restow.migration.steps import Done, Fail, ReadLive, Wait
from tests.migration.move_facts import OURS, facts, job, node, pod, reservation, said, seat, successor
from tests.migration.steps.step_rows import DIRECT, EVICTING, GONE, Row, check, left, table

SEATED = {"restow.sh/reservation": f"shop/{OURS}/pod/0"}


ROWS: list[Row] = [
    (
        "it is terminating",
        facts(job(EVICTING), pod=pod(leaving=True)),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    ("it is gone", left(), Wait, "WaitForPodBindReservation", "has not taken"),
    ("a namesake took its place", left(pod=pod(uid="new")), Wait, "WaitForPodBindReservation", "has not taken"),
    (
        "another hand deletes it before what was written down is sent",
        facts(job(EVICTING), pod=pod(leaving=True), eviction_unsent=True),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    ("another hand deletes it", facts(pod=pod(leaving=True)), Wait, "WaitForPodBindReservation", "has not taken"),
    ("another hand deleted it", facts(pod=None), Wait, "WaitForPodBindReservation", "has not taken"),
    (
        "deleted before it had a seat",
        facts(pod=None, reservation=reservation(phase="Pending")),
        Fail,
        "MissingPod",
        "before its seat was ready",
    ),
    (
        "deleted while its seat was looked for anew",
        facts(pod=None, reservation=reservation(seat(), phase="Pending")),
        Fail,
        "MissingPod",
        "before its seat was ready",
    ),
    (
        "deleted when nothing was held although it says so",
        facts(pod=None, reservation=replace(reservation(), status=replace(reservation().status, placements=None))),
        Fail,
        "MissingPod",
        "before its seat was ready",
    ),
    (
        "deleted before it asked for one",
        facts(job(ref=None), pod=None, reservation=None),
        Fail,
        "MissingPod",
        "before a seat was reserved",
    ),
    ("the reservation was deleted", left(reservation=None), Fail, "MissingReservation", "has left"),
    (
        "the seat expired",
        left(reservation=reservation(phase="Failed", reason="Expired")),
        Fail,
        "ReservationExpired",
        "has left",
    ),
    (
        "the room was taken",
        left(reservation=reservation(phase="Failed", reason="RoomTaken")),
        Fail,
        "RoomTaken",
        "has left",
    ),
    (
        "the target was cordoned",
        left(node=node(unschedulable=True)),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "time is up, and the seat was taken",
        facts(
            job(EVICTING, age=301),
            pod=pod(leaving=True),
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(successor(),),
        ),
        Fail,
        "Timeout",
        "not done within 5m0s: pod shop/web-1 has not left yet",
    ),
    (
        "time is up, and the successor has just come",
        left(
            of=job(EVICTING, said("PodBoundReservation"), age=301),
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(successor(conditions=[], age=1.0),),
        ),
        Fail,
        "Timeout",
        "not done within 5m0s",
    ),
    (
        "time is up, and the successor is not Ready",
        left(
            of=job(GONE, age=301),
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(successor(conditions=[]),),
        ),
        Fail,
        "Timeout",
        "not done within 5m0s: pod web-new on node n2 is not Ready yet",
    ),
    ("time is up", left(of=job(GONE, age=301)), Fail, "Timeout", "its seat is kept until 2027-01-15T08:09:00Z"),
    ("stopped", left(stop_reason="x"), Wait, "WaitForPodBindReservation", "has not taken"),
    (
        "directly, terminating",
        facts(job(EVICTING, ref=None), options=DIRECT, pod=pod(leaving=True)),
        Wait,
        "Evicting",
        "",
    ),
    ("directly, gone", facts(job(EVICTING, ref=None), options=DIRECT, pod=None), Done, "", "is gone"),
    (
        "directly, by another hand",
        facts(job(ref=None), options=DIRECT, pod=None),
        Fail,
        "MissingPod",
        "left before it was evicted",
    ),
    (
        "it left in this moment",
        left(said("Eviction", "False", "Evicting", age=1.0)),
        Wait,
        "Evicting",
        "",
    ),
    (
        "it is known where the seat is",
        left(of=job(EVICTING, nodeName="n2")),
        Wait,
        "WaitForPodBindReservation",
        "has not taken the seat on node n2 yet",
    ),
    (
        "deleted before it asked for one by name",
        facts(job(ref=""), pod=None, reservation=None),
        Fail,
        "MissingPod",
        "before a seat was reserved",
    ),
    (
        "reservation collected, and the consumer names no seat",
        left(reservation=None, consumers=(successor(),)),
        Fail,
        "MissingReservation",
        "has left",
    ),
    (
        "reservation collected, and the consumer names another seat",
        left(reservation=None, consumers=(successor(annotations={"restow.sh/reservation": "shop/other/pod/0"}),)),
        Fail,
        "MissingReservation",
        "has left",
    ),
    (
        "reservation collected, and the consumer is not on a node",
        left(reservation=None, consumers=(pod("web-2", "new", node=None, annotations=SEATED),)),
        Fail,
        "MissingReservation",
        "has left",
    ),
    (
        "time is up, and its seat has no end",
        left(of=job(GONE, age=301), reservation=reservation(ttl="0s")),
        Fail,
        "Timeout",
        "its seat is kept until it is deleted",
    ),
    (
        "time is up, and the end of its seat cannot be read",
        left(of=job(GONE, age=301), reservation=reservation(ttl="soon")),
        Fail,
        "Timeout",
        "its seat is kept until it is deleted",
    ),
    ("it is gone, by the caches", left(is_fresh=False), Wait, "WaitForPodBindReservation", "has not taken"),
    ("another hand deleted it, by the caches", facts(pod=None, is_fresh=False), ReadLive, None, ""),
    ("its seat is gone, by the caches", left(reservation=None, is_fresh=False), ReadLive, None, ""),
    (
        "its words are changed for the worse, too late",
        left(
            of=job(GONE, options={"template": {"metadata": {"name": "x"}}}),
            options=EffectiveOptions(problem="spec.ttl: no"),
        ),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "its seat has to be found anew",
        left(reservation=reservation(phase="Pending")),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
]


@table(ROWS)
def test_next_step_while_the_pod_leaves(row: Row) -> None:
    check(row)
