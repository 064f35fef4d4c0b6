"""The pod has left: which pod consumed the seat in its place, and what becomes of that successor."""

from __future__ import annotations

from restow.migration.steps import Done, Fail, Wait
from restow.model.times import format_time
from tests.migration.move_facts import NOW, OURS, facts, job, pod, reservation, said, seat, successor
from tests.migration.steps.step_rows import EVICTING, GONE, USERS, Row, check, given, left, table

GONE_SINCE = said("Eviction", "True", "EvictComplete", age=10.0)
KEPT = said("ReservationScheduled")
WAS_READY = said("BoundPodReady")
TIMELESS = {"type": "ReservationScheduled", "status": "True"}
SEATED = {"restow.sh/reservation": f"shop/{OURS}/pod/0"}
NEW = {"namespace": "shop", "name": "web-2", "uid": "new"}

ROWS: list[Row] = [
    (
        "the successor starts",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(successor(conditions=[]),)),
        Wait,
        "WaitForBoundPodReady",
        "pod web-new on node n2 is not Ready yet",
    ),
    (
        "the successor is Ready",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(successor(),)),
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
            consumers=(successor(),),
        ),
        Wait,
        "",
        "is Ready",
    ),
    (
        "the successor has done its work",
        left(
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(successor(phase="Succeeded", conditions=[]),),
        ),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "the seat is said to be taken by the pod itself",
        facts(
            job(EVICTING),
            pod=pod(leaving=True),
            reservation=reservation(seat(by="old"), phase="Succeeded"),
            consumers=(pod(leaving=True),),
        ),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "a foreign reservation under its name was consumed before the seat was kept",
        left(
            EVICTING,
            KEPT,
            reservation=reservation(seat(by="new"), phase="Succeeded", metadata={"labels": {}}),
            consumers=(successor(),),
        ),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "its reservation is kept by a finalizer, and its consumption is not recorded",
        left(
            reservation=reservation(metadata={"deletionTimestamp": "2027-01-01T00:00:00Z"}),
            consumers=(successor(annotations=SEATED),),
        ),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "a given one is gone, and its consumer came before the seat was kept",
        left(
            of=job(EVICTING, KEPT, ref=USERS),
            reservation=None,
            consumers=(successor(annotations={"restow.sh/reservation": f"shop/{USERS}/pod/0"}),),
        ),
        Fail,
        "MissingReservation",
        "has left",
    ),
    (
        "a given one was taken by one made when the seat was kept",
        left(
            of=job(EVICTING, KEPT, ref=USERS),
            reservation=reservation(seat(by="new"), phase="Succeeded", name=USERS),
            consumers=(successor(age=60.0),),
        ),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "a given one was taken by one made after the seat was kept, and before the eviction",
        left(
            of=job(said("Eviction", "False", "Evicting", lastProbeTime=format_time(NOW - 20)), KEPT, ref=USERS),
            reservation=reservation(seat(by="new"), seat(index=1), name=USERS),
            consumers=(successor(age=40.0),),
        ),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "a given one was taken by one made before the eviction by as much as clocks may differ",
        left(
            of=job(said("Eviction", "False", "Evicting", lastProbeTime=format_time(NOW - 20)), KEPT, ref=USERS),
            reservation=reservation(seat(by="new"), seat(index=1), name=USERS),
            consumers=(successor(age=28.0),),
        ),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "a given one was taken by one that sat there before the eviction, whatever clocks say",
        left(
            of=job(said("Eviction", "False", "Evicting", lastProbeTime=format_time(NOW - 20)), KEPT, ref=USERS),
            reservation=reservation(seat(by="new"), seat(index=1), name=USERS),
            consumers=(successor(age=10.0),),
            foreign_consumers=frozenset({"new"}),
        ),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "a given one was taken by one made after the eviction, of which we heard later",
        left(
            of=job(said("Eviction", age=5.0, lastProbeTime=format_time(NOW - 20)), KEPT, ref=USERS),
            reservation=reservation(seat(by="new"), phase="Succeeded", name=USERS),
            consumers=(successor(age=15.0),),
        ),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "the successor failed at once",
        left(
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(successor(phase="Failed", conditions=[], age=1.0),),
        ),
        Fail,
        "MissingPod",
        "successor web-new failed before it was Ready",
    ),
    (
        "the successor failed",
        left(
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(successor(phase="Failed", conditions=[]),),
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
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(successor(leaving=True),)),
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
        left(
            of=job(GONE, age=301), reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(successor(),)
        ),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "its reservation was swept",
        left(
            of=job(GONE, podRef={"namespace": "shop", "name": "web-2", "uid": "new"}),
            reservation=None,
            consumers=(successor(),),
        ),
        Done,
        "",
        "moved to node n2 as web-2",
    ),
    (
        "taken, and cleared away since",
        left(reservation=None, consumers=(successor(annotations=SEATED),)),
        Done,
        "",
        "moved to node n2 as web-2",
    ),
    (
        "a given one taken late",
        left(**(given(seat(by="new")) | {"of": job(KEPT, GONE_SINCE, ref=USERS)}), consumers=(successor(age=30.0),)),
        Done,
        "",
        "moved to node n2 as web-new",
    ),
    (
        "an earlier pod sits in a given seat",
        left(**given(seat(by="new"), seat(index=1)), consumers=(successor(),)),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "the successor starts in this moment",
        left(
            reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(successor(conditions=[], age=1.0),)
        ),
        Wait,
        "Evicting",
        "",
    ),
    (
        "another hand deleted it, and the successor starts in this moment",
        facts(
            pod=None,
            reservation=reservation(seat(by="new"), phase="Succeeded"),
            consumers=(successor(conditions=[], age=1.0),),
        ),
        Wait,
        "WaitForBoundPodReady",
        "is not Ready yet",
    ),
    (
        "the successor in a given seat starts in this moment",
        left(
            **(given(seat(by="new")) | {"of": job(KEPT, GONE_SINCE, ref=USERS)}),
            consumers=(successor(conditions=[], age=1.0),),
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
            consumers=(pod("web-2", "new", node=None, conditions=[]),),
        ),
        Wait,
        "WaitForBoundPodReady",
        "pod web-new on node n2 is not Ready yet",
    ),
    (
        "all seats consumed, by no known pod",
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
            consumers=(pod("web-3", "third"), successor()),
        ),
        Done,
        "",
        "moved to node n2 as web-new",
    ),
    (
        "a given one, taken by the successor of another",
        left(
            **(given(seat(by="new"), seat(index=1)) | {"of": job(KEPT, ref=USERS)}),
            consumers=(successor(age=30.0),),
            foreign_consumers=frozenset({"new"}),
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
        "a given one, consumed by a pod that is gone",
        left(**(given(seat(by="new"), seat(index=1)) | {"of": job(KEPT, ref=USERS)})),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "a given one, taken, and it is not known since when it was kept",
        left(
            **(given(seat(by="new"), seat(index=1)) | {"of": job(TIMELESS, ref=USERS)}),
            consumers=(successor(age=30.0),),
        ),
        Wait,
        "WaitForPodBindReservation",
        "has not taken",
    ),
    (
        "the successor is Ready, by the caches",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(successor(),), is_fresh=False),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "the successor is new, and Ready",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(successor(age=1.0),)),
        Done,
        "",
        "moved to node n2",
    ),
    (
        "the successor is new, and leaving",
        left(reservation=reservation(seat(by="new"), phase="Succeeded"), consumers=(successor(age=1.0, leaving=True),)),
        Fail,
        "MissingPod",
        "was deleted",
    ),
]


@table(ROWS)
def test_next_step_with_a_successor(row: Row) -> None:
    check(row)
