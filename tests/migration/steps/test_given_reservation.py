"""A reservation that was given to a job: used as it is, unless the successor could not take a seat of it."""

from __future__ import annotations

from typing import Any

import msgspec

from restow.migration.effective_options import EffectiveOptions
from restow.migration.steps import Evict, Fail, ReadLive, Wait
from restow.model.objects import ObjectMeta, OwnerReference, PodGroup, PodTemplate
from restow.model.times import format_time
from tests.migration.move_facts import NOW, facts, job, node, pod, reservation, seat
from tests.migration.steps.step_rows import USERS, Row, check, given, table

NO_OWNER = {"owners": [{"controller": {"uid": "other"}}]}
LARGE = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
SMALL: Any = {
    "name": "pod",
    "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
}
NONSENSE: Any = {
    "name": "pod",
    "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "much"}}}]}},
}
TWO_SIZES = {
    "matchPolicy": "Fits",
    "tasks": [{**SMALL, "template": {"spec": LARGE}}, {**SMALL, "name": "small"}],
}
PORTS = "node(s) didn't have free ports for the requested pod ports"
NODES = {"n2": node(), "n3": node("n3")}
TO_N3 = {"restow.sh/target-node": "n3"}
NAMING = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="web", uid="deploy", controller=True)
A_MINUTE_AGO = format_time(NOW - 60)
OURS_ONLY = EffectiveOptions(ttl=300.0, scheduler_names=frozenset({"restow"}))
OF_RESTOW = {"schedulerName": "restow"}
OF_ANOTHER = {"schedulerName": "volcano"}
BY_LABEL = {"owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}]}


ROWS: list[Row] = [
    ("a given one does not exist", facts(job(ref=USERS), reservation=None), Fail, "MissingReservation", "spare-room"),
    (
        "a given one is not placed yet",
        facts(**given(phase="Pending")),
        Wait,
        "Pending",
        "no seat has been found yet",
    ),
    (
        "the same, and a job comes before it",
        facts(**given(phase="Pending"), jobs_ahead=("first",)),
        Wait,
        "Pending",
        "no seat has been found yet",
    ),
    (
        "its target is newer than other seats of what it was given",
        facts(**given(lastTransitionTime=A_MINUTE_AGO), node=node(age=59.0)),
        Evict,
        "Evicting",
        "",
    ),
    ("given, of one of our schedulers", facts(options=OURS_ONLY, **given(spec=OF_RESTOW)), Evict, "Evicting", ""),
    (
        "given, of another scheduler",
        facts(options=OURS_ONLY, **given(spec=OF_ANOTHER)),
        Fail,
        "ForbiddenMigratePod",
        "reservation spare-room is another scheduler's, schedulerNames has restow",
    ),
    ("a given one would", facts(**given(ttl="3m")), Fail, "ReservationExpired", "expires in 120 s, 150 s are needed"),
    ("a given one is over", facts(**given(ttl="30s")), Fail, "ReservationExpired", "expires in 0 s, 150 s are needed"),
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
        "a given one is too small for the successor",
        facts(
            **given(spec={"matchPolicy": "Fits", "tasks": [SMALL]}),
            successor_template=msgspec.convert({"spec": LARGE}, PodTemplate),
        ),
        Fail,
        "ForbiddenMigratePod",
        "insufficient cpu (requested 2, available 1)",
    ),
    (
        "a given one is too small where it already is",
        facts(**given(seat("n1"), spec={"matchPolicy": "Fits", "tasks": [SMALL]}), pod=pod(spec=LARGE)),
        Fail,
        "ForbiddenMigratePod",
        "where it already is",
    ),
    (
        "a given one is of another template",
        facts(**given(spec={"tasks": [SMALL]}), pod=pod(spec=LARGE)),
        Fail,
        "ForbiddenMigratePod",
        "differs from task pod in containers",
    ),
    (
        "a given one is for a job before it",
        facts(**given(), jobs_ahead=("first",)),
        Wait,
        "Waiting",
        "reservation spare-room has 1 free seat for it and for jobs before it: first",
    ),
    (
        "a given one has a seat for both, and the node of one is unfit",
        facts(
            **given(seat(), seat("n3", index=1)),
            jobs_ahead=("first",),
            nodes={"n2": node(), "n3": node("n3", unschedulable=True)},
        ),
        Wait,
        "Waiting",
        "reservation spare-room has 1 free seat for it and for jobs before it: first",
    ),
    (
        "a given one has a seat for both, and only one node was read",
        facts(**given(seat(), seat("n3", index=1)), jobs_ahead=("first",)),
        ReadLive,
        "",
        "",
    ),
    (
        "the first seat of a given one is on an unfit node, and the second is not",
        facts(**given(seat(), seat("n3", index=1)), nodes={"n2": node(unschedulable=True), "n3": node("n3")}),
        Evict,
        "Evicting",
        "its seat is on node n3",
    ),
    (
        "the last seat of a given one is not left yet",
        facts(
            **given(seat(by="third"), seat(index=1), waiting=1, message="terminating pods have not left node n2 yet")
        ),
        Wait,
        "Waiting",
        "its seat is not ready yet: terminating pods have not left node n2 yet",
    ),
    (
        "one of two seats of a given one is not left yet",
        facts(**given(seat(), seat(index=1), waiting=1)),
        Evict,
        "Evicting",
        "its seat is on node n2",
    ),
    (
        "its node would reject the successor now, and no condition says so",
        facts(**given(), rejected_seats={("pod", 0): PORTS}),
        Wait,
        "Waiting",
        f"its seat cannot be relied on: node n2 does not fit its successor: {PORTS}",
    ),
    (
        "the node of the first seat would reject the successor now, and that of the second would not",
        facts(**given(seat(), seat("n3", index=1)), nodes=NODES, rejected_seats={("pod", 0): PORTS}),
        Evict,
        "Evicting",
        "its seat is on node n3",
    ),
    (
        "the node of the first seat would reject the successor now, and the second is for another job",
        facts(**given(seat(), seat("n3", index=1)), nodes=NODES, rejected_seats={("pod", 0): PORTS}, jobs_ahead=("a",)),
        Wait,
        "Waiting",
        f"node n2 does not fit its successor: {PORTS}",
    ),
    (
        "others are taken before a given one",
        facts(**given(), earlier_reservation="older"),
        Fail,
        "ForbiddenMigratePod",
        "comes before spare-room, so its successor would take a seat of older",
    ),
    (
        "a given one of the labels of its gang",
        facts(
            **given(spec={"owners": [{"labelSelector": {"matchLabels": {"team": "a"}}}]}),
            pod=pod(annotations={"scheduling.k8s.io/group-name": "g"}),
            successor_group=PodGroup(metadata=ObjectMeta(name="g", namespace="shop", labels={"team": "a"})),
        ),
        Evict,
        "Evicting",
        "its seat is on node n2",
    ),
    (
        "a given one has a seat for both",
        facts(**given(seat(), seat(index=1)), jobs_ahead=("first",)),
        Evict,
        "Evicting",
        "",
    ),
    (
        "another seat is free",
        facts(**given(seat("n3", by="9"), seat(index=1), seat("n1", index=2))),
        Evict,
        "Evicting",
        "node n2",
    ),
    (
        "a seat where the pod is comes before the one that is kept for it",
        facts(**given(seat("n1"), seat(index=1))),
        Fail,
        "ForbiddenMigratePod",
        "its successor may take the seat on node n1, where it already is",
    ),
    (
        "the same, and nothing was tried yet",
        facts(**given(seat("n1"), seat(index=1)), eviction_dry_run=None),
        ReadLive,
        "",
        "",
    ),
    (
        "the same, and the successor would not get in there",
        facts(**given(seat("n1"), seat(index=1)), rejected_seats={("pod", 0): PORTS}),
        Evict,
        "Evicting",
        "its seat is on node n2",
    ),
    (
        "the same, and a job before it may take it",
        facts(**given(seat("n1"), seat(index=1), seat("n3", index=2)), nodes=NODES, jobs_ahead=("first",)),
        Wait,
        "Waiting",
        "its successor may take the seat on node n1, where it already is",
    ),
    (
        "the only seat is where the pod is, and a job before it may take it",
        facts(**given(seat("n1")), jobs_ahead=("first",)),
        Wait,
        "Waiting",
        "reservation spare-room has 0 free seats for it and for jobs before it: first",
    ),
    (
        "a seat where the pod is may be the smaller one",
        facts(**given(seat(), {**seat("n1"), "task": "zz"}, spec={"matchPolicy": "Fits"})),
        Fail,
        "ForbiddenMigratePod",
        "its successor may take the seat on node n1, where it already is",
    ),
    (
        "a seat where the pod is is large enough for what is made now, and too small for the pod",
        facts(
            **given(seat(), {**seat("n1"), "task": "small"}, spec=TWO_SIZES),
            pod=pod(spec=LARGE),
            successor_template=msgspec.convert(SMALL["template"], PodTemplate),
        ),
        Fail,
        "ForbiddenMigratePod",
        "its successor may take the seat on node n1, where it already is",
    ),
    (
        "a seat on the own node is too small for the successor",
        facts(**given(seat(), {**seat("n1"), "task": "small"}, spec=TWO_SIZES), pod=pod(spec=LARGE)),
        Evict,
        "Evicting",
        "its seat is on node n2",
    ),
    (
        "the seat where it is to go comes after another",
        facts(**{**given(seat(), seat("n3", index=1)), "of": job(ref=USERS, annotations=TO_N3)}),
        Fail,
        "ForbiddenMigratePod",
        "its target is node n3, but its successor would take the seat on node n2",
    ),
    (
        "a given one of the pod's namespace does not exist",
        facts(job(ref=None, options={"reservationRef": {"name": USERS}}), reservation=None),
        Fail,
        "MissingReservation",
        "reservation shop/spare-room does not exist",
    ),
    (
        "a given one of the same template",
        facts(**given(spec={"schedulerName": "restow", "tasks": [{"name": "pod"}]})),
        Evict,
        "Evicting",
        "node n2",
    ),
    (
        "a given one of the same template, with the default class",
        facts(
            **given(spec={"schedulerName": "restow", "tasks": [{"name": "pod"}]}),
            pod=pod(spec={"priorityClassName": "usual"}),
        ),
        Evict,
        "Evicting",
        "node n2",
    ),
    (
        "another task of a given one is large enough",
        facts(
            **given(spec={"matchPolicy": "Fits", "tasks": [{"name": "other", "template": {"spec": LARGE}}, SMALL]}),
            pod=pod(spec=LARGE),
        ),
        Fail,
        "ForbiddenMigratePod",
        "too small",
    ),
    (
        "a given one for its gang",
        facts(
            **given(spec={"owners": [{"object": {"kind": "PodGroup", "name": "gang"}}]}),
            pod=pod(annotations={"scheduling.k8s.io/group-name": "gang"}),
        ),
        Evict,
        "Evicting",
        "node n2",
    ),
    (
        "a given one is large enough",
        facts(**given(spec={"matchPolicy": "Fits", "tasks": [{"name": "other"}, SMALL]})),
        Evict,
        "Evicting",
        "node n2",
    ),
    (
        "a given one asks for nonsense",
        facts(**given(spec={"matchPolicy": "Fits", "tasks": [NONSENSE]})),
        Fail,
        "ForbiddenMigratePod",
        "much",
    ),
    (
        "a given one for the pod's name, which its successor will have",
        facts(**given(spec={"owners": [{"object": {"name": "web-1"}}]}), owner_chain=(NAMING,)),
        Evict,
        "Evicting",
        "node n2",
    ),
    (
        "a given one for the pod's name, which its successor will not have",
        facts(**given(spec={"owners": [{"object": {"name": "web-1"}}]})),
        Fail,
        "ForbiddenMigratePod",
        "do not include",
    ),
    (
        "a given one of another namespace",
        facts(**given(metadata={"namespace": "other"})),
        Fail,
        "ForbiddenMigratePod",
        "do not include",
    ),
]


@table(ROWS)
def test_next_step_with_a_given_reservation(row: Row) -> None:
    check(row)
