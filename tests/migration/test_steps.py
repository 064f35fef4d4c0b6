"""Every row of the migration's state machine: from facts to the next step."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.migration.facts import Answer, Facts
from restow.migration.instructions import (
    Abort,
    AwaitAdmission,
    Done,
    Evict,
    Extend,
    Fail,
    Look,
    Pin,
    Refer,
    Release,
    Reserve,
    Wait,
)
from restow.migration.steps import next_step
from restow.migration.terms import Terms
from tests.migration.moves import (
    NO,
    OURS,
    YES,
    before,
    facts,
    heir,
    job,
    node,
    pending,
    pod,
    reservation,
    said,
    seat,
)

Row = tuple[str, Facts, type, str | None, str]
DIRECT = Terms(mode="EvictDirectly", ttl=300.0)
DRY = Terms(ttl=300.0, dry_run=True)
EVICTING = said("Eviction", "False", "Evicting")
REFUSED = said("Eviction", "False", "FailedEvict", NO.message)
GONE = said("Eviction", "True", "EvictComplete")
GONE_SINCE = said("Eviction", "True", "EvictComplete", age=10.0)
KEPT = said("ReservationScheduled")
WAS_READY = said("BoundPodReady")
NEW = {"namespace": "shop", "name": "web-2", "uid": "new"}
COMPLETE = said("Complete", "False", "Timeout")
OVER = said("Complete", "False", "Aborted")
USERS = "spare-room"
PLANNED = {"restow.sh/target-node": "n1"}
NO_OWNER = {"owners": [{"controller": {"uid": "other"}}]}
LARGE = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
SMALL = {
    "name": "pod",
    "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
}
BY_LABEL = {"owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}]}


FORGED = replace(pending(), status=replace(pending().status, phase="Running"))


def given(*seats: Any, **more: Any) -> dict[str, Any]:
    """A reservation that was given to the job, with its job."""
    return {"of": job(ref=USERS), "reservation": reservation(*seats, name=USERS, **more)}


def left(*conditions: Any, **changes: Any) -> Facts:
    """The pod is gone after its eviction."""
    of = changes.pop("of", None) or job(*(conditions or (EVICTING,)))
    return facts(of, **{"pod": None, "owners": (), **changes})


def over(phase: str = "Failed", *conditions: Any, **changes: Any) -> Facts:
    return facts(job(*(conditions or (COMPLETE,)), phase=phase), **changes)


BEFORE_ADMISSION: list[Row] = [
    ("nothing in the way", before(), AwaitAdmission, None, ""),
    ("no namespace", before(pending(pod_ref={"namespace": ""})), Fail, "InvalidPodRef", "namespace and name"),
    ("no name", before(pending(pod_ref={"name": ""})), Fail, "InvalidPodRef", "namespace and name"),
    ("not a pod", before(pending(pod_ref={"kind": "Node"})), Fail, "InvalidPodRef", "Node is not Pod"),
    ("unreadable words", before(terms=Terms(problem="spec.ttl: no")), Fail, "ForbiddenMigratePod", "spec.ttl"),
    (
        "a template with a name",
        before(pending(options={"template": {"metadata": {"name": "x"}}})),
        Fail,
        "FailedCreateReservation",
        "spec.reservationOptions.template.metadata.name",
    ),
    (
        "a template elsewhere",
        before(pending(options={"template": {"metadata": {"namespace": "x"}}})),
        Fail,
        "FailedCreateReservation",
        "x is not shop",
    ),
    (
        "a template with two seats",
        before(pending(options={"template": {"spec": {"tasks": [{"name": "a", "replicas": 2}]}}})),
        Fail,
        "FailedCreateReservation",
        "2 seats are asked for",
    ),
    (
        "a reservation elsewhere",
        before(pending(options={"reservationRef": {"namespace": "x", "name": "y"}})),
        Fail,
        "MissingReservation",
        "x is not shop",
    ),
    ("no pod", before(pod=None), Fail, "MissingPod", "there is no pod shop/web-1"),
    ("the pod was replaced", before(pod=pod(uid="new")), Fail, "MissingPod", "another with UID new"),
    ("the pod is leaving", before(pod=pod(leaving=True)), Fail, "MissingPod", "is leaving already"),
    ("no UID yet", before(pending(pod_ref={"uid": ""})), Pin, None, ""),
    ("no workload yet", before(workload="deploy"), Pin, None, ""),
    (
        "workload known",
        before(pending(annotations={"restow.sh/workload": "deploy"}), workload="deploy"),
        AwaitAdmission,
        None,
        "",
    ),
    ("a rival", before(rival="other"), Fail, "ForbiddenMigratePod", "job other moves it already"),
    ("a pending pod", before(pod=pod(node=None)), Fail, "ForbiddenMigratePod", "not on a node yet"),
    ("a finished pod", before(pod=pod(phase="Succeeded")), Fail, "ForbiddenMigratePod", "it is over (Succeeded)"),
    ("a finished pod, directly", before(pod=pod(phase="Failed"), terms=DIRECT), AwaitAdmission, None, ""),
    ("a bare pod", before(owners=()), Fail, "ForbiddenMigratePod", "no controller"),
    ("a bare pod, directly", before(owners=(), terms=DIRECT), AwaitAdmission, None, ""),
    ("already on its target", before(pending(annotations=PLANNED)), Fail, "ForbiddenMigratePod", "on node n1 already"),
    ("paused", before(pending(spec={"paused": True})), Wait, "Paused", "time stands still"),
    ("waited too long", before(terms=Terms(waiting=100.0)), Fail, "Timeout", "not admitted within 1m40s"),
    (
        "waited too long for a limit",
        before(pending(message="waits for its wave"), terms=Terms(waiting=100.0)),
        Fail,
        "Timeout",
        "within 1m40s: waits for its wave",
    ),
    ("waits without limit", before(terms=Terms(waiting=0.0)), AwaitAdmission, None, ""),
    ("Running was only written", before(FORGED), AwaitAdmission, None, ""),
    ("aborted", before(pending(), job=job(phase="Aborted", ref=None)), Abort, "Aborted", "aborted by a user"),
]

RESERVING: list[Row] = [
    ("try the eviction first", before(job(ref=None)), Look, None, ""),
    ("the trial succeeded", before(job(ref=None), trial=YES), Reserve, None, ""),
    ("the trial was refused", before(job(ref=None), trial=NO), Wait, "FailedEvict", "disruption budget web"),
    ("stopped", before(job(ref=None), stopped="evictions are stopped"), Wait, "Stopped", "evictions are stopped"),
    ("a dry run", before(job(ref=None), trial=YES, terms=DRY), Abort, "DryRun", "would be created"),
    (
        "refused for good",
        before(job(ref=None), outcome=Answer(False, "bad", final=True)),
        Fail,
        "FailedCreateReservation",
        "bad",
    ),
    (
        "refused for now",
        before(job(ref=None), outcome=Answer(False, "quota")),
        Wait,
        "FailedCreateReservation",
        "quota",
    ),
    ("a rival was admitted", before(job(ref=None), rival="other", trial=YES), Fail, "ForbiddenMigratePod", "job other"),
    ("created, not written down", facts(job(ref=None)), Refer, "", "was made for pod shop/web-1"),
    (
        "somebody else's under its name",
        facts(job(ref=None), reservation=reservation(metadata={"labels": {}})),
        Fail,
        "FailedCreateReservation",
        "not made for this job",
    ),
    ("it was deleted", facts(reservation=None), Fail, "MissingReservation", "shop/restow-job-uid does not exist"),
    (
        "it is being deleted",
        facts(reservation=reservation(metadata={"deletionTimestamp": "2027-01-01T00:00:00Z"})),
        Fail,
        "MissingReservation",
        "does not exist",
    ),
    ("a given one does not exist", facts(job(ref=USERS), reservation=None), Fail, "MissingReservation", "spare-room"),
    ("not looked at yet", facts(reservation=reservation(phase="")), Wait, "Pending", "no seat has been found yet"),
    (
        "no room for it",
        facts(reservation=reservation(phase="Pending", message="0/3 nodes are available.")),
        Wait,
        "Unschedulable",
        "0/3 nodes",
    ),
    ("on room being left", facts(reservation=reservation(phase="Waiting")), Wait, "Waiting", "still leaving"),
    (
        "it expired",
        facts(reservation=reservation(phase="Failed", reason="Expired")),
        Fail,
        "ReservationExpired",
        "Expired",
    ),
    (
        "its room was taken",
        facts(reservation=reservation(phase="Failed", reason="RoomTaken")),
        Fail,
        "RoomTaken",
        "RoomTaken",
    ),
    (
        "its node is gone",
        facts(reservation=reservation(phase="Failed", reason="NodeGone")),
        Fail,
        "Unschedulable",
        "NodeGone",
    ),
    (
        "it is invalid",
        facts(reservation=reservation(phase="Failed", reason="Invalid", message="x")),
        Fail,
        "Unschedulable",
        "Invalid: x",
    ),
    (
        "its seat was taken",
        facts(reservation=reservation(seat(by="9"), phase="Succeeded")),
        Fail,
        "ForbiddenMigratePod",
        "taken by web-9",
    ),
    ("used up", facts(reservation=reservation(phase="Succeeded")), Fail, "ForbiddenMigratePod", "used up"),
    (
        "on the node it leaves",
        facts(reservation=reservation(seat("n1"))),
        Fail,
        "ForbiddenMigratePod",
        "where it is already",
    ),
    ("its target is gone", facts(node=None), Fail, "Unschedulable", "node n2 is gone"),
    ("its target was cordoned", facts(node=node(unschedulable=True)), Fail, "Unschedulable", "node n2 is cordoned"),
    (
        "its target was tainted",
        facts(node=node(taints=[{"key": "gpu", "effect": "NoSchedule"}])),
        Fail,
        "Unschedulable",
        "gpu=:NoSchedule",
    ),
    (
        "its target lost a label",
        facts(pod=pod(spec={"nodeSelector": {"disk": "ssd"}})),
        Fail,
        "Unschedulable",
        "no longer matches",
    ),
    ("it would expire too soon", facts(reservation=reservation(ttl="3m")), Extend, None, ""),
    ("a given one would", facts(**given(ttl="3m")), Fail, "ReservationExpired", "another 120 s, 150 s are needed"),
    ("a long farewell", facts(pod=pod(spec={"terminationGracePeriodSeconds": 600})), Extend, None, ""),
    ("a given one is used", facts(**given()), Evict, "Evicting", "its seat is on node n2"),
    ("a given one by label", facts(**given(spec=BY_LABEL)), Evict, "Evicting", "its seat is on node n2"),
    ("a given one of others", facts(**given(spec=NO_OWNER)), Fail, "ForbiddenMigratePod", "do not include"),
    ("its own, given to others", facts(reservation=reservation(spec=NO_OWNER)), Fail, "ForbiddenMigratePod", "owners"),
    (
        "a given one of another move",
        facts(**given(metadata={"annotations": {"restow.sh/migrating": "third"}})),
        Fail,
        "ForbiddenMigratePod",
        "for the move of another pod, with UID third",
    ),
    (
        "a given one is too small",
        facts(**given(spec={"matchPolicy": "Fits", "tasks": [SMALL]}), pod=pod(spec=LARGE)),
        Fail,
        "ForbiddenMigratePod",
        "insufficient cpu (requested 2, available 1)",
    ),
    (
        "a given one is of another template",
        facts(**given(spec={"tasks": [SMALL]}), pod=pod(spec=LARGE)),
        Fail,
        "ForbiddenMigratePod",
        "differs from task pod in schedulerName, containers",
    ),
    (
        "a given one is for a job before it",
        facts(**given(), ahead=("first",)),
        Fail,
        "ForbiddenMigratePod",
        "every free seat of reservation spare-room (1) is for a job before it: first",
    ),
    ("a given one has a seat for both", facts(**given(seat(), seat(index=1)), ahead=("first",)), Evict, "Evicting", ""),
    (
        "another seat is free",
        facts(**given(seat(by="9"), seat("n1", index=1), seat(index=2))),
        Evict,
        "Evicting",
        "node n2",
    ),
    ("lives for ever", facts(reservation=reservation(ttl="0s")), Evict, "Evicting", "node n2"),
]

EVICTING_ROWS: list[Row] = [
    ("everything is ready", facts(), Evict, "Evicting", "pod shop/web-1 leaves node n1; its seat is on node n2"),
    ("from caches", facts(fresh=False), Look, None, ""),
    ("not tried", facts(trial=None), Look, None, ""),
    ("a budget refuses", facts(trial=NO), Wait, "FailedEvict", "needs 2 healthy pods"),
    ("stopped", facts(stopped="evictions are stopped"), Wait, "Stopped", "evictions are stopped"),
    ("not its turn", facts(turn=Answer(False, "10 per second", 3.0)), Wait, "FailedEvict", "10 per second"),
    ("its turn", facts(turn=YES), Evict, "Evicting", "leaves node n1"),
    ("a dry run", facts(terms=DRY), Abort, "DryRun", "it would be evicted"),
    ("the API refused after all", facts(job(EVICTING), outcome=NO), Wait, "FailedEvict", "needs 2 healthy pods"),
    ("refused before, allowed now", facts(job(REFUSED)), Evict, "Evicting", "leaves node n1"),
    ("sent, and nothing happened", facts(job(EVICTING)), Evict, "Evicting", "leaves node n1"),
    ("sent, and now a budget refuses", facts(job(EVICTING), trial=NO), Wait, "Evicting", ""),
    ("sent, and now stopped", facts(job(EVICTING), stopped="x"), Wait, "Evicting", ""),
    ("paused", facts(job(spec={"paused": True})), Wait, "Paused", "time stands still"),
    ("time is up", facts(job(age=301)), Fail, "Timeout", "not done within 5m0s"),
    (
        "time is up, waiting for a budget",
        facts(job(age=301), trial=NO),
        Fail,
        "Timeout",
        "within 5m0s: The disruption budget web",
    ),
    ("time is up, no limit", facts(job(age=9999), terms=Terms(ttl=0.0)), Evict, "Evicting", "leaves"),
    ("the UID was removed", facts(job(pod_ref={"uid": ""})), Fail, "InvalidPodRef", "not the pod that was admitted"),
    ("another pod was named", facts(job(pod_ref={"uid": "x"})), Fail, "InvalidPodRef", "'x' is not the pod"),
    ("directly", facts(job(ref=None), terms=DIRECT, reservation=None), Evict, "Evicting", "nothing is reserved"),
    (
        "directly, a rival",
        facts(job(ref=None), terms=DIRECT, reservation=None, rival="o"),
        Fail,
        "ForbiddenMigratePod",
        "job o",
    ),
    (
        "directly, refused",
        facts(job(ref=None), terms=DIRECT, reservation=None, trial=NO),
        Wait,
        "FailedEvict",
        "budget",
    ),
]

LEAVING: list[Row] = [
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

AFTER_THE_END: list[Row] = [
    ("aborted", facts(job(phase="Aborted")), Abort, "Aborted", "aborted by a user"),
    ("aborted, told", over("Aborted", OVER), Release, None, ""),
    ("failed before the eviction", over(), Release, None, ""),
    ("failed after a refused eviction", over("Failed", COMPLETE, REFUSED), Release, None, ""),
    ("aborted after the eviction", over("Aborted", OVER, GONE, pod=None), Wait, None, ""),
    ("aborted while it may be evicted", over("Aborted", OVER, EVICTING), Wait, None, ""),
    ("another hand deletes the pod", over(pod=pod(leaving=True)), Wait, None, ""),
    ("deleted, and no seat was ready", over(pod=None, reservation=reservation(phase="Pending")), Release, None, ""),
    (
        "a given one is kept",
        facts(job(COMPLETE, phase="Failed", ref=USERS), reservation=reservation(name=USERS)),
        Wait,
        None,
        "",
    ),
    ("nothing was reserved", over(reservation=None), Wait, None, ""),
    ("it ended by itself", over(reservation=reservation(phase="Failed", reason="Expired")), Wait, None, ""),
    (
        "succeeded",
        over("Succeed", said("Complete"), GONE, pod=None, reservation=reservation(seat(by="new"), phase="Succeeded")),
        Wait,
        None,
        "",
    ),
    ("failed and paused", facts(job(COMPLETE, phase="Failed", spec={"paused": True})), Release, None, ""),
]

ROWS = {
    f"{part}: {name}": (of, step, reason, told)
    for part, rows in {
        "before admission": BEFORE_ADMISSION,
        "reserving": RESERVING,
        "evicting": EVICTING_ROWS,
        "leaving": LEAVING,
        "after the end": AFTER_THE_END,
    }.items()
    for name, of, step, reason, told in rows
}


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_the_next_step(row: tuple[Facts, type, str | None, str]) -> None:
    of, step, reason, told = row
    found = next_step(of)
    assert type(found) is step, found
    if isinstance(found, Look) or reason is None:
        return
    assert (found.status.reason or "") == reason or (isinstance(found, Wait) and _reason(found) == reason), found.status
    assert told in (found.status.message or ""), found.status


def _reason(step: Wait) -> str:
    """What a job that only goes on waiting said before."""
    return next((one.reason or "" for one in step.status.conditions or () if one.type == "Eviction"), "")
