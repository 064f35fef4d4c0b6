"""Before a job is admitted: what it asks for can be done, and is written down."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from restow.migration.effective_options import EffectiveOptions
from restow.migration.state_machine import next_step
from restow.migration.steps import Abort, AwaitAdmission, Fail, PinPod, ReadLive, Wait
from restow.model.objects import PodTemplate
from restow.model.times import MAX_DURATION_SECONDS
from tests.migration.move_facts import before, job, pending, pod
from tests.migration.steps.step_rows import DIRECT, Row, check, table

LEAVING = {"deletionTimestamp": "2027-01-01T00:00:00Z"}
PLANNED = {"restow.sh/target-node": "n1"}
ONE_CONTAINER = {"containers": [{"name": "main"}]}
FOREIGN = msgspec.convert({"spec": {"schedulerName": "other"}}, PodTemplate)
GATED = msgspec.convert({"spec": {"schedulingGates": [{"name": "wait"}]}}, PodTemplate)
OURS_ALONE = EffectiveOptions(scheduler_names=frozenset({"restow"}))
FORGED = replace(pending(), status=replace(pending().status, phase="Running"))


ROWS: list[Row] = [
    ("nothing in the way", before(), AwaitAdmission, None, ""),
    ("being deleted", before(pending(metadata=LEAVING)), Abort, "Aborted", "is being deleted"),
    ("no namespace", before(pending(pod_ref={"namespace": ""})), Fail, "InvalidPodRef", "namespace and name"),
    ("no name", before(pending(pod_ref={"name": ""})), Fail, "InvalidPodRef", "namespace and name"),
    ("not a pod", before(pending(pod_ref={"kind": "Node"})), Fail, "InvalidPodRef", "Node is not Pod"),
    ("unreadable words", before(options=EffectiveOptions(problem="spec.ttl: no")), Fail, "InvalidSpec", "spec.ttl"),
    (
        "a template with a name",
        before(pending(options={"template": {"metadata": {"name": "x"}}})),
        Fail,
        "InvalidSpec",
        "spec.reservationOptions.template.metadata.name",
    ),
    (
        "a template elsewhere",
        before(pending(options={"template": {"metadata": {"namespace": "x"}}})),
        Fail,
        "InvalidSpec",
        "x is not shop",
    ),
    (
        "a template with two seats",
        before(pending(options={"template": {"spec": {"tasks": [{"name": "a", "replicas": 2}]}}})),
        Fail,
        "InvalidSpec",
        "2 seats are asked for",
    ),
    (
        "a template of which no reservation can be made",
        before(pending(options={"template": {"spec": {"tasks": [{"template": {"spec": {"nodeName": "n7"}}}]}}})),
        Fail,
        "InvalidSpec",
        "spec.reservationOptions.template.spec.tasks[0].template.spec.nodeName: must be empty",
    ),
    (
        "a template that nothing is wrong with",
        before(pending(options={"template": {"spec": {"ttl": "1h"}}}), pod=pod(spec=ONE_CONTAINER)),
        AwaitAdmission,
        None,
        "",
    ),
    (
        "a reservation elsewhere",
        before(pending(options={"reservationRef": {"namespace": "x", "name": "y"}})),
        Fail,
        "InvalidSpec",
        "x is not shop",
    ),
    (
        "a reservation without a name",
        before(pending(options={"reservationRef": {"uid": "1-2-3"}})),
        Fail,
        "InvalidSpec",
        "spec.reservationOptions.reservationRef.name: the name of the reservation is required",
    ),
    ("a reference to nothing", before(pending(options={"reservationRef": {}})), AwaitAdmission, None, ""),
    (
        "a time that is too long for its seat",
        before(pending(spec={"ttl": "2562047h47m"}), options=EffectiveOptions(ttl=MAX_DURATION_SECONDS - 16.0)),
        Fail,
        "InvalidSpec",
        "spec.ttl: 2562047h47m0s is too long: its seat would have to live longer than 292 years",
    ),
    (
        "a configured time that is too long for its seat",
        before(options=EffectiveOptions(ttl=MAX_DURATION_SECONDS - 16.0)),
        Fail,
        "InvalidSpec",
        "defaultJobTTL: 2562047h47m0s is too long: its seat would",
    ),
    (
        "a grace period that is too long for its seat",
        before(
            pending(spec={"deleteOptions": {"gracePeriodSeconds": 10**11}}),
            options=EffectiveOptions(ttl=300.0, grace_seconds=10**11),
        ),
        Fail,
        "InvalidSpec",
        "spec.deleteOptions.gracePeriodSeconds: 100000000000 s is too long: its seat would",
    ),
    (
        "a grace period of the pod that is too long for its seat",
        before(pending(spec={"deleteOptions": {}}), pod=pod(spec={"terminationGracePeriodSeconds": 10**11})),
        Fail,
        "ForbiddenMigratePod",
        "its grace period of 100000000000 s is too long: its seat would",
    ),
    (
        "the same, and no other options",
        before(pod=pod(spec={"terminationGracePeriodSeconds": 10**11})),
        Fail,
        "ForbiddenMigratePod",
        "its grace period of 100000000000 s is too long",
    ),
    ("no pod", before(pod=None), Fail, "MissingPod", "there is no pod shop/web-1"),
    ("the pod was replaced", before(pod=pod(uid="new")), Fail, "MissingPod", "another with UID new"),
    ("the pod is leaving", before(pod=pod(leaving=True)), Fail, "MissingPod", "is already terminating"),
    ("no UID yet", before(pending(pod_ref={"uid": ""})), PinPod, None, ""),
    ("no workload yet", before(workload_uid="deploy"), PinPod, None, ""),
    ("no mode yet", before(pending(spec={"mode": None})), PinPod, None, ""),
    ("nothing is noted on it", before(pending(metadata={"annotations": None})), PinPod, None, ""),
    ("not known where from", before(pending(annotations={"restow.sh/moved-from": "n9"})), PinPod, None, ""),
    (
        "workload known",
        before(pending(annotations={"restow.sh/workload": "deploy"}), workload_uid="deploy"),
        AwaitAdmission,
        None,
        "",
    ),
    ("a rival", before(conflicting_job="other"), Fail, "ForbiddenMigratePod", "job other moves it already"),
    ("a pending pod", before(pod=pod(node=None)), Fail, "ForbiddenMigratePod", "not on a node yet"),
    ("a finished pod", before(pod=pod(phase="Succeeded")), Fail, "ForbiddenMigratePod", "it has finished (Succeeded)"),
    ("a finished pod, directly", before(pod=pod(phase="Failed"), options=DIRECT), AwaitAdmission, None, ""),
    ("a bare pod", before(owner_chain=()), Fail, "ForbiddenMigratePod", "no controller"),
    ("a bare pod, directly", before(owner_chain=(), options=DIRECT), AwaitAdmission, None, ""),
    ("it keeps to another seat", before(named_reservation="spare"), Fail, "ForbiddenMigratePod", "reservation spare"),
    (
        "its successor is another scheduler's",
        before(successor_template=FOREIGN, options=OURS_ALONE),
        Fail,
        "ForbiddenMigratePod",
        "its successor would have schedulerName other, by the current template of its controller",
    ),
    (
        "it is another scheduler's itself",
        before(pod=pod(spec={"schedulerName": "other"}), options=OURS_ALONE),
        AwaitAdmission,
        None,
        "",
    ),
    (
        "its successor is another one's of ours",
        before(successor_template=FOREIGN, options=EffectiveOptions(scheduler_names=frozenset({"other"}))),
        AwaitAdmission,
        None,
        "",
    ),
    (
        "its successor is gated",
        before(successor_template=GATED),
        Fail,
        "ForbiddenMigratePod",
        "its successor would wait for scheduling gates (wait)",
    ),
    (
        "already on its target",
        before(pending(annotations=PLANNED)),
        Fail,
        "ForbiddenMigratePod",
        "it is already on its target node n1",
    ),
    ("paused", before(pending(spec={"paused": True})), Wait, "Paused", "its ttl does not run"),
    (
        "waited too long",
        before(options=EffectiveOptions(waiting_ttl=100.0)),
        Fail,
        "Timeout",
        "not admitted within 1m40s",
    ),
    (
        "waited too long for a limit",
        before(pending(message="waits for its wave"), options=EffectiveOptions(waiting_ttl=100.0)),
        Fail,
        "Timeout",
        "within 1m40s: waits for its wave",
    ),
    ("waits without limit", before(options=EffectiveOptions(waiting_ttl=0.0)), AwaitAdmission, None, ""),
    ("Running was only written", before(FORGED), AwaitAdmission, None, ""),
    ("aborted", before(pending(), job=job(phase="Aborted", ref=None)), Abort, "Aborted", "aborted by a user"),
    (
        "no UID yet, from caches",
        before(pending(pod_ref={"uid": ""}), is_fresh=False),
        ReadLive,
        None,
        "",
    ),
    ("no mode yet, from caches", before(pending(spec={"mode": None}), is_fresh=False), PinPod, None, ""),
    ("nothing in the way, from caches", before(is_fresh=False), AwaitAdmission, None, ""),
    ("no pod, from caches", before(pod=None, is_fresh=False), ReadLive, None, ""),
    ("paused, from caches", before(pending(spec={"paused": True}), is_fresh=False), ReadLive, None, ""),
    ("no options at all", before(pending(spec={"reservationOptions": None})), AwaitAdmission, None, ""),
    (
        "the pod has another name",
        before(pending(pod_ref={"name": "x"})),
        Fail,
        "InvalidPodRef",
        "is shop/web-1, not shop/x",
    ),
]


@table(ROWS)
def test_next_step_before_admission(row: Row) -> None:
    check(row)


@pytest.mark.parametrize(("phase", "shown"), [("", "Pending"), ("Pending", "Pending"), ("Running", "Running")])
def test_a_paused_job_keeps_its_phase(phase: str, shown: str) -> None:
    step = next_step(before(job(phase=phase, ref=None, spec={"paused": True})))
    assert isinstance(step, Wait) and step.status.phase == shown
