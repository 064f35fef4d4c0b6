"""A seat for a pod that is to move: created, placed, lost, or of no use to the successor."""

from __future__ import annotations

from msgspec.structs import replace

from restow.migration.effective_options import EffectiveOptions
from restow.migration.facts import PredictedSeat, WriteAnswer
from restow.migration.steps import Abort, Evict, Extend, Fail, ReadLive, RecordReservation, Reserve, Wait
from restow.model.objects import Reservation
from restow.model.times import format_time
from tests.migration.move_facts import NO, NOW, OURS, YES, before, facts, job, node, pod, reservation, seat
from tests.migration.steps.step_rows import DRY, EVICTING, Row, check, table

TWO_SEATS = {"template": {"spec": {"tasks": [{"name": "a", "replicas": 2}]}}}
EMPTY = replace(reservation(), status=replace(reservation().status, placements=[]))
LEAVING = replace(node().metadata, deletion_timestamp="2027-01-01T00:00:00Z")
A_MINUTE_AGO = format_time(NOW - 60)
KEPT_FOR_A_MINUTE = reservation(lastTransitionTime=A_MINUTE_AGO)


def looked_at(generation: int | None) -> Reservation:
    """The reservation in its second generation, of which its status tells this one."""
    made = reservation(metadata={"generation": 2})
    return replace(made, status=replace(made.status, observed_generation=generation))


ROWS: list[Row] = [
    ("try the eviction first", before(job(ref=None)), ReadLive, None, ""),
    ("the trial succeeded", before(job(ref=None), eviction_dry_run=YES), Reserve, None, ""),
    ("the trial was refused", before(job(ref=None), eviction_dry_run=NO), Wait, "FailedEvict", "disruption budget web"),
    ("stopped", before(job(ref=None), stop_reason="evictions are stopped"), Wait, "Stopped", "evictions are stopped"),
    (
        "its workload is short",
        before(job(ref=None), workload_unavailable="2 of 3"),
        Wait,
        "MaxUnavailablePerWorkload",
        "2 of 3",
    ),
    (
        "a dry run",
        before(job(ref=None), eviction_dry_run=YES, options=DRY),
        Abort,
        "DryRun",
        "dry run, nothing was changed: reservation shop/restow-job-uid would be created",
    ),
    (
        "a dry run, and there is a node",
        before(job(ref=None), eviction_dry_run=YES, options=DRY, predicted_seat=PredictedSeat("n2")),
        Abort,
        "DryRun",
        "dry run, nothing was changed: reservation shop/restow-job-uid would be created, on node n2 as of now; "
        "then pod shop/web-1 would be evicted",
    ),
    (
        "a dry run, and there is none",
        before(
            job(ref=None),
            eviction_dry_run=YES,
            options=DRY,
            predicted_seat=PredictedSeat(reason="0/3 nodes are available: 3 Too many pods."),
        ),
        Abort,
        "DryRun",
        "dry run, nothing was changed: reservation shop/restow-job-uid would be created, and no node fits it "
        "now: 0/3 nodes are available: 3 Too many pods.",
    ),
    (
        "refused for good",
        before(job(ref=None), refusal=WriteAnswer(False, "bad", is_final=True)),
        Fail,
        "FailedCreateReservation",
        "bad",
    ),
    (
        "refused for now",
        before(job(ref=None), refusal=WriteAnswer(False, "quota")),
        Wait,
        "FailedCreateReservation",
        "quota",
    ),
    (
        "a rival was admitted",
        before(job(ref=None), conflicting_job="other", eviction_dry_run=YES),
        Fail,
        "ForbiddenMigratePod",
        "job other",
    ),
    ("created, not written down", facts(job(ref=None)), RecordReservation, None, ""),
    (
        "a foreign reservation under its name",
        facts(job(ref=None), reservation=reservation(metadata={"labels": {}})),
        Fail,
        "FailedCreateReservation",
        "not created for this job",
    ),
    ("it was deleted", facts(reservation=None), Fail, "MissingReservation", "shop/restow-job-uid does not exist"),
    (
        "it is being deleted",
        facts(reservation=reservation(metadata={"deletionTimestamp": "2027-01-01T00:00:00Z"})),
        Fail,
        "MissingReservation",
        "does not exist",
    ),
    (
        "another has its name",
        facts(job(options={"reservationRef": {"namespace": "shop", "name": OURS, "uid": "first"}})),
        Fail,
        "MissingReservation",
        "with UID first is gone; another with UID restow-job-uid has its name",
    ),
    ("it is the very one", facts(job(options={"reservationRef": {"name": OURS, "uid": OURS}})), Evict, None, ""),
    (
        "it insists on another",
        facts(named_reservation="mine"),
        Fail,
        "ForbiddenMigratePod",
        "requests reservation mine by",
    ),
    (
        "it is not known whether it may be moved",
        facts(missing_information="its PersistentVolumeClaims are not known: data"),
        Wait,
        "News",
        "waits for information: its PersistentVolumeClaims are not known: data",
    ),
    (
        "it is not known whether it may be evicted",
        facts(
            options=EffectiveOptions(mode="EvictDirectly", ttl=300.0),
            missing_information="its PersistentVolumeClaims are not known: data",
        ),
        Wait,
        "News",
        "waits for information: its PersistentVolumeClaims are not known: data",
    ),
    (
        "its gang is not all there",
        facts(gang_problem="pod group g is gone"),
        Wait,
        "Gang",
        "pod group g is gone",
    ),
    (
        "its StatefulSet would not recreate it now",
        facts(waits_for_order="db-0 is not Ready"),
        Wait,
        "Order",
        "db-0 is not Ready",
    ),
    (
        "its StatefulSet would not recreate it now, without a seat",
        facts(
            job(ref=None),
            options=EffectiveOptions(mode="EvictDirectly", ttl=300.0),
            waits_for_order="db-0 is not Ready",
        ),
        Wait,
        "Order",
        "db-0 is not Ready",
    ),
    ("it insists on this one", facts(job(ref=OURS), named_reservation=OURS), Evict, None, ""),
    (
        "it is told to use another one elsewhere, and its eviction may be on its way",
        facts(job(EVICTING, ref=None, options={"reservationRef": {"namespace": "x", "name": "y"}}), reservation=None),
        Fail,
        "MissingReservation",
        "reservation x/y does not exist",
    ),
    (
        "not looked at yet",
        facts(reservation=reservation(phase="")),
        Wait,
        "Pending",
        "no seat has been found yet outside its own node n1",
    ),
    (
        "no room where it is to go",
        facts(
            job(annotations={"restow.sh/target-node": "n2"}),
            reservation=reservation(phase="Pending", message="0/3 nodes are available."),
        ),
        Wait,
        "Unschedulable",
        "no seat on its target node n2: 0/3 nodes",
    ),
    (
        "no room for it",
        facts(reservation=reservation(phase="Pending", message="0/3 nodes are available.")),
        Wait,
        "Unschedulable",
        "no seat outside its own node n1: 0/3 nodes",
    ),
    (
        "on room being left",
        facts(reservation=reservation(phase="Waiting", message="pods have not left node n2 yet")),
        Wait,
        "Waiting",
        "its seat is not ready yet: pods have not left node n2 yet",
    ),
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
        "its seat is consumed",
        facts(reservation=reservation(seat(by="9"), phase="Succeeded")),
        Fail,
        "ForbiddenMigratePod",
        "consumed by web-9",
    ),
    (
        "used up",
        facts(reservation=reservation(phase="Succeeded")),
        Fail,
        "ForbiddenMigratePod",
        "all seats of reservation",
    ),
    (
        "on the node it leaves",
        facts(reservation=reservation(seat("n1"))),
        Fail,
        "ForbiddenMigratePod",
        "where it already is",
    ),
    ("its target is gone", facts(node=None), Fail, "Unschedulable", "node n2 is gone"),
    (
        "its target was made anew since",
        facts(reservation=KEPT_FOR_A_MINUTE, node=node(age=59.0)),
        Fail,
        "Unschedulable",
        "node n2 is another one, made after the seat was kept",
    ),
    (
        "its target is as old as the seat",
        facts(reservation=KEPT_FOR_A_MINUTE, node=node(age=60.0)),
        Evict,
        "Evicting",
        "",
    ),
    ("it is not known since when the seat is kept", facts(node=node(age=59.0)), Evict, "Evicting", ""),
    ("the age of its target node is not known", facts(reservation=KEPT_FOR_A_MINUTE), Evict, "Evicting", ""),
    (
        "it is to go elsewhere since its seat was found",
        facts(job(annotations={"restow.sh/target-node": "n3"})),
        Fail,
        "ForbiddenMigratePod",
        "its target is node n3, but the seat kept for it is on node n2",
    ),
    ("its seat is where it is to go", facts(job(annotations={"restow.sh/target-node": "n2"})), Evict, "Evicting", ""),
    (
        "it is to go elsewhere, and has no seat yet",
        facts(job(annotations={"restow.sh/target-node": "n3"}), reservation=reservation(phase="Pending"), node=None),
        Wait,
        "Pending",
        "no seat has been found yet on its target node n3",
    ),
    (
        "its reservation was changed since",
        facts(reservation=looked_at(1)),
        Wait,
        "Pending",
        "the scheduler has not observed the last change of reservation restow-job-uid yet",
    ),
    ("its reservation was changed, and looked at", facts(reservation=looked_at(2)), Evict, "Evicting", ""),
    ("its reservation does not say what was looked at", facts(reservation=looked_at(None)), Evict, "Evicting", ""),
    (
        "protected since it was admitted",
        facts(forbidden="its annotation says so"),
        Fail,
        "ForbiddenMigratePod",
        "pod shop/web-1 cannot be moved: its annotation says so",
    ),
    ("its target was cordoned", facts(node=node(unschedulable=True)), Fail, "Unschedulable", "node n2 is cordoned"),
    (
        "its target was tainted",
        facts(node=node(taints=[{"key": "gpu", "effect": "NoSchedule"}])),
        Fail,
        "Unschedulable",
        "gpu=:NoSchedule",
    ),
    (
        "its target was tainted with a value",
        facts(node=node(taints=[{"key": "gpu", "value": "yes", "effect": "NoExecute"}])),
        Fail,
        "Unschedulable",
        "gpu=yes:NoExecute",
    ),
    (
        "its target lost a label",
        facts(pod=pod(spec={"nodeSelector": {"disk": "ssd"}})),
        Fail,
        "Unschedulable",
        "no longer matches",
    ),
    ("it would expire too soon", facts(reservation=reservation(ttl="3m")), Extend, None, ""),
    ("it lives exactly long enough", facts(reservation=reservation(ttl="3m30s")), Evict, "Evicting", ""),
    ("a long farewell", facts(pod=pod(spec={"terminationGracePeriodSeconds": 600})), Extend, None, ""),
    ("lives for ever", facts(reservation=reservation(ttl="0s")), Evict, "Evicting", "node n2"),
    (
        "refused for now, and told until when",
        before(job(ref=None), refusal=WriteAnswer(False, "quota", 60.0)),
        Wait,
        "FailedCreateReservation",
        "quota",
    ),
    (
        "refused, and not told until when",
        before(job(ref=None), eviction_dry_run=WriteAnswer(False, "no")),
        Wait,
        "FailedEvict",
        "no",
    ),
    (
        "for a job without limit",
        before(job(ref=None), eviction_dry_run=YES, options=EffectiveOptions(ttl=0.0)),
        Reserve,
        None,
        "",
    ),
    ("a reference without a name", before(job(ref=""), eviction_dry_run=YES), Reserve, None, ""),
    ("a reference without a name, and it was created", facts(job(ref="")), RecordReservation, None, ""),
    (
        "made in this moment",
        facts(job(), reservation=reservation(phase="", age=1.0)),
        Wait,
        None,
        "",
    ),
    ("made in the future", facts(reservation=reservation(phase="", age=-9.0)), Wait, "Pending", "no seat has been"),
    (
        "no room for it, and moves before it failed",
        facts(
            job(doubt=True),
            reservation=reservation(phase="Pending", message="0/3 nodes are available."),
        ),
        Fail,
        "Unschedulable",
        "earlier moves of its plan failed, and now: no seat outside its own node n1: 0/3 nodes",
    ),
    (
        "it failed without a word",
        facts(reservation=reservation(phase="Failed")),
        Fail,
        "Unschedulable",
        "reservation restow-job-uid failed",
    ),
    ("its end cannot be read", facts(reservation=reservation(ttl="soon")), Evict, "Evicting", "node n2"),
    ("it says Available and holds nothing", facts(reservation=EMPTY), Wait, "Pending", "no seat has been found"),
    (
        "its target is being deleted",
        facts(node=replace(node(), metadata=LEAVING)),
        Fail,
        "Unschedulable",
        "node n2 is being deleted",
    ),
    (
        "its target was cordoned, and it tolerates that",
        facts(node=node(unschedulable=True), pod=pod(spec={"tolerations": [{"operator": "Exists"}]})),
        Evict,
        "Evicting",
        "node n2",
    ),
    (
        "the job's own grace period is long",
        facts(options=EffectiveOptions(ttl=300.0, grace_seconds=600)),
        Extend,
        None,
        "",
    ),
    (
        "the template was changed for the worse",
        facts(job(options=TWO_SEATS)),
        Fail,
        "InvalidSpec",
        "2 seats",
    ),
    (
        "no room for it, and so no node",
        facts(reservation=reservation(phase="Pending", message="0/3 nodes are available."), node=None),
        Wait,
        "Unschedulable",
        "0/3 nodes",
    ),
]


@table(ROWS)
def test_next_step_until_the_seat_is_ready(row: Row) -> None:
    check(row)
