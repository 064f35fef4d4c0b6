"""The pod leaves or has left: its successor is seen into the seat, and Ready."""

from __future__ import annotations

from typing import Any

from restow.migration.facts import Facts
from restow.migration.instructions import Done, Fail, Wait
from tests.migration.moves import OURS, facts, heir, job, node, pod, reservation, said, seat
from tests.migration.steps.rows import DIRECT, EVICTING, GONE, USERS, Row, check, given, table

GONE_SINCE = said("Eviction", "True", "EvictComplete", age=10.0)
KEPT = said("ReservationScheduled")
WAS_READY = said("BoundPodReady")
NEW = {"namespace": "shop", "name": "web-2", "uid": "new"}


def left(*conditions: Any, **changes: Any) -> Facts:
    """The pod is gone after its eviction."""
    of = changes.pop("of", None) or job(*(conditions or (EVICTING,)))
    return facts(of, **{"pod": None, "owners": (), **changes})


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
    ("time is up", left(of=job(GONE, age=301)), Fail, "Timeout", "its seat is kept until 2027-01-15T08:09:00Z"),
    ("stopped", left(stopped="x"), Wait, "WaitForPodBindReservation", "has not taken"),
    (
        "the successor starts",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(heir(conditions=[]),)),
        Wait,
        "WaitForBoundPodReady",
        "pod web-new on node n2 is not Ready yet",
    ),
    (
        "the successor is Ready",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(heir(),)),
        Done,
        "",
        "pod shop/web-1 moved to node n2 as web-new",
    ),
    (
        "the successor is Ready before the pod is gone",
        facts(
            job(EVICTING),
            pod=pod(leaving=True),
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(heir(),),
        ),
        Wait,
        "",
        "is Ready",
    ),
    (
        "the successor has done its work",
        left(
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(heir(phase="Succeeded", conditions=[]),),
        ),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "the successor failed",
        left(
            reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(heir(phase="Failed", conditions=[]),)
        ),
        Fail,
        "MissingPod",
        "failed before it was Ready",
    ),
    (
        "the successor was deleted",
        left(reservation=reservation(seat(by="new"), phase="Succeeded")),
        Fail,
        "MissingPod",
        "was deleted",
    ),
    (
        "the successor is leaving",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(heir(leaving=True),)),
        Fail,
        "MissingPod",
        "was deleted",
    ),
    (
        "the successor was Ready once, and is deleted",
        left(of=job(GONE, WAS_READY, podRef=NEW, nodeName="n2"), reservation=None, consumers=()),
        Done,
        "",
        "moved to node n2 as web-2",
    ),
    (
        "it was Ready once, and the pod is still leaving",
        facts(job(EVICTING, WAS_READY, podRef=NEW), pod=pod(leaving=True), consumers=()),
        Wait,
        "Evicting",
        "",
    ),
    (
        "Ready in the last moment",
        left(of=job(GONE, age=301), reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(heir(),)),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "its reservation was swept",
        left(
            of=job(GONE, podRef={"namespace": "shop", "name": "web-2", "uid": "new"}),
            reservation=None,
            consumers=(heir(),),
        ),
        Done,
        "",
        "moved to node n2 as web-2",
    ),
    (
        "taken, and cleared away since",
        left(reservation=None, consumers=(heir(annotations={"restow.sh/reservation": f"shop/{OURS}/pod/0"}),)),
        Done,
        "",
        "moved to node n2 as web-2",
    ),
    (
        "a given one taken late",
        left(**(given(seat(by="new")) | {"of": job(KEPT, GONE_SINCE, ref=USERS)}), consumers=(heir(age=30.0),)),
        Done,
        "",
        "moved to node n2 as web-new",
    ),
    (
        "an earlier pod sits in a given seat",
        left(**given(seat(by="new"), seat(index=1)), consumers=(heir(),)),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "directly, terminating",
        facts(job(EVICTING, ref=None), terms=DIRECT, pod=pod(leaving=True)),
        Wait,
        "Evicting",
        "",
    ),
    ("directly, gone", facts(job(EVICTING, ref=None), terms=DIRECT, pod=None), Done, "", "is gone"),
    (
        "directly, by another hand",
        facts(job(ref=None), terms=DIRECT, pod=None),
        Fail,
        "MissingPod",
        "left before it was evicted",
    ),
]


@table(ROWS)
def test_the_next_step(row: Row) -> None:
    check(row)
