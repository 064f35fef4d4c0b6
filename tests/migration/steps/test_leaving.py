"""The pod leaves or has left: its successor is seen into the seat, and Ready."""

from __future__ import annotations

from typing import Any

from restow.migration.facts import Facts
from restow.migration.instructions import Done, Fail, Look, Wait
from restow.migration.terms import Terms
from tests.migration.moves import OURS, facts, job, node, pod, reservation, said, seat, successor
from tests.migration.steps.rows import DIRECT, EVICTING, GONE, USERS, Row, check, given, table

GONE_SINCE = said("Eviction", "True", "EvictComplete", age=10.0)
KEPT = said("ReservationScheduled")
WAS_READY = said("BoundPodReady")
TIMELESS = {"type": "ReservationScheduled", "status": "True"}
SEATED = {"restow.sh/reservation": f"shop/{OURS}/pod/0"}
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
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), takers=(successor(conditions=[]),)),
        Wait,
        "WaitForBoundPodReady",
        "pod web-new on node n2 is not Ready yet",
    ),
    (
        "the successor is Ready",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), takers=(successor(),)),
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
            takers=(successor(),),
        ),
        Wait,
        "",
        "is Ready",
    ),
    (
        "the successor has done its work",
        left(
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            takers=(successor(phase="Succeeded", conditions=[]),),
        ),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "the successor failed",
        left(
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            takers=(successor(phase="Failed", conditions=[]),),
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
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), takers=(successor(leaving=True),)),
        Fail,
        "MissingPod",
        "was deleted",
    ),
    (
        "the successor was Ready once, and is deleted",
        left(of=job(GONE, WAS_READY, podRef=NEW, nodeName="n2"), reservation=None, takers=()),
        Done,
        "",
        "moved to node n2 as web-2",
    ),
    (
        "it was Ready once, and the pod is still leaving",
        facts(job(EVICTING, WAS_READY, podRef=NEW), pod=pod(leaving=True), takers=()),
        Wait,
        "Evicting",
        "",
    ),
    (
        "Ready in the last moment",
        left(of=job(GONE, age=301), reservation=reservation(seat(by="new"), phase="Succeeded"), takers=(successor(),)),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "its reservation was swept",
        left(
            of=job(GONE, podRef={"namespace": "shop", "name": "web-2", "uid": "new"}),
            reservation=None,
            takers=(successor(),),
        ),
        Done,
        "",
        "moved to node n2 as web-2",
    ),
    (
        "taken, and cleared away since",
        left(reservation=None, takers=(successor(annotations=SEATED),)),
        Done,
        "",
        "moved to node n2 as web-2",
    ),
    (
        "a given one taken late",
        left(**(given(seat(by="new")) | {"of": job(KEPT, GONE_SINCE, ref=USERS)}), takers=(successor(age=30.0),)),
        Done,
        "",
        "moved to node n2 as web-new",
    ),
    (
        "an earlier pod sits in a given seat",
        left(**given(seat(by="new"), seat(index=1)), takers=(successor(),)),
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
    (
        "it left in this moment",
        left(said("Eviction", "False", "Evicting", age=1.0)),
        Wait,
        "Evicting",
        "",
    ),
    (
        "the successor starts in this moment",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), takers=(successor(conditions=[], age=1.0),)),
        Wait,
        "Evicting",
        "",
    ),
    (
        "another hand deleted it, and the successor starts in this moment",
        facts(
            pod=None,
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            takers=(successor(conditions=[], age=1.0),),
        ),
        Wait,
        "WaitForBoundPodReady",
        "is not Ready yet",
    ),
    (
        "the successor in a given seat starts in this moment",
        left(
            **(given(seat(by="new")) | {"of": job(KEPT, GONE_SINCE, ref=USERS)}),
            takers=(successor(conditions=[], age=1.0),),
        ),
        Wait,
        "WaitForBoundPodReady",
        "is not Ready yet",
    ),
    (
        "the successor is not shown on its node yet",
        left(
            of=job(EVICTING, nodeName="n2"),
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            takers=(pod("web-2", "new", node=None, conditions=[]),),
        ),
        Wait,
        "WaitForBoundPodReady",
        "pod web-new on node n2 is not Ready yet",
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
        "used up, by nobody known",
        facts(pod=None, reservation=reservation(phase="Succeeded")),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "taken, and not written down before",
        facts(
            job(EVICTING, ref=None),
            pod=None,
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            takers=(pod("web-3", "third"), successor()),
        ),
        Done,
        "",
        "moved to node n2 as web-new",
    ),
    (
        "a given one, taken by the successor of another",
        left(
            **(given(seat(by="new"), seat(index=1)) | {"of": job(KEPT, ref=USERS)}),
            takers=(successor(age=30.0),),
            of_others=frozenset({"new"}),
        ),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "a given one, in which the pod itself sat",
        left(**(given(seat(by="old"), seat(index=1)) | {"of": job(KEPT, ref=USERS)})),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "a given one, taken by somebody who is gone",
        left(**(given(seat(by="new"), seat(index=1)) | {"of": job(KEPT, ref=USERS)})),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "a given one, taken, and it is not known since when it was kept",
        left(
            **(given(seat(by="new"), seat(index=1)) | {"of": job(TIMELESS, ref=USERS)}),
            takers=(successor(age=30.0),),
        ),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "cleared away, and somebody has no seat",
        left(reservation=None, takers=(successor(),)),
        Fail,
        "MissingReservation",
        "has left",
    ),
    (
        "cleared away, and somebody has another's seat",
        left(reservation=None, takers=(successor(annotations={"restow.sh/reservation": "shop/other/pod/0"}),)),
        Fail,
        "MissingReservation",
        "has left",
    ),
    (
        "cleared away, and somebody claims the seat and is not on a node",
        left(reservation=None, takers=(pod("web-2", "new", node=None, annotations=SEATED),)),
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
    ("it is gone, by the caches", left(fresh=False), Wait, "WaitForPodBindReservation", "has not taken"),
    ("another hand deleted it, by the caches", facts(pod=None, fresh=False), Look, None, ""),
    ("its seat is gone, by the caches", left(reservation=None, fresh=False), Look, None, ""),
    (
        "the successor is Ready, by the caches",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), takers=(successor(),), fresh=False),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "its words are changed for the worse, too late",
        left(of=job(GONE, options={"template": {"metadata": {"name": "x"}}}), terms=Terms(problem="spec.ttl: no")),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "the successor is new, and Ready",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), takers=(successor(age=1.0),)),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "the successor is new, and leaving",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), takers=(successor(age=1.0, leaving=True),)),
        Fail,
        "MissingPod",
        "was deleted",
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
def test_the_next_step(row: Row) -> None:
    check(row)
