"""The reservation that a migration asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.migration.reservation import is_made_for, job_uid, reservation_for, target_node
from restow.model.affinity import node_constraint
from restow.model.objects import Pod, Reservation
from restow.scheduling.reservations.validity import problems
from tests.migration.moves import OWNERS, job, pod, reservation

ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def made(of: Pod | None = None, *, annotations: Any = None, **template: Any) -> Reservation:
    asked = job(ref=None, options={"template": template} if template else {}, annotations=annotations or {})
    return reservation_for(asked, of or pod(), OWNERS, seconds=299.4)


def affine(*terms: Any) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return pod(spec={"affinity": {"nodeAffinity": required}})


def fits(found: Reservation, name: str, **labels: str) -> bool:
    return node_constraint((found.spec.tasks or [])[0].template.spec).matches(name, labels)


def test_it_is_made_from_the_pod() -> None:
    found = made(pod(spec={"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}))
    [task] = found.spec.tasks or []
    assert (found.metadata.name, found.metadata.namespace) == ("restow-job-uid", "shop")
    assert found.metadata.annotations == {"restow.sh/migrating": "old", "restow.sh/moved-from": "n1"}
    assert (found.spec.match_policy, found.spec.min_available, found.spec.ttl) == ("Fits", 1, "5m0s")
    assert found.spec.scheduler_name == "restow"
    assert (task.name, task.replicas, task.template.spec.node_name) == ("pod", 1, None)
    assert task.template.metadata.labels == {"app": "web"}
    assert msgspec.to_builtins(task.template.spec.containers) == [
        {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    ]
    assert problems(found) == []


def test_whoever_its_controllers_make_may_take_the_seat() -> None:
    owners = [(one.controller.kind, one.controller.uid) for one in made().spec.owners or () if one.controller]
    assert owners == [("ReplicaSet", "rs"), ("Deployment", "deploy")]


@pytest.mark.parametrize(
    ("of", "labels", "nodes"),
    [
        pytest.param(pod(), {}, {"n2", "n3"}, id="any node but its own"),
        pytest.param(affine(ZONE), {"zone": "a"}, {"n2", "n3"}, id="of those it may be on"),
        pytest.param(affine(ZONE), {"zone": "b"}, set(), id="and no others"),
        pytest.param(affine(ZONE, ZONE), {"zone": "a"}, {"n2", "n3"}, id="whichever of its terms holds"),
        pytest.param(affine({}), {}, set(), id="a term without conditions still matches nothing"),
        pytest.param(affine({}, ZONE), {"zone": "b"}, set(), id="beside another one, too"),
    ],
)
def test_the_source_is_excluded(of: Pod, labels: dict[str, str], nodes: set[str]) -> None:
    found = made(of)
    assert {name for name in ("n1", "n2", "n3") if fits(found, name, **labels)} == nodes


@pytest.mark.parametrize(
    "template", [{}, {"metadata": {"annotations": {"restow.sh/target-node": "n3"}}}], ids=["job", "template"]
)
def test_a_planned_target_is_the_only_one(template: Any) -> None:
    notes = {} if template else {"restow.sh/target-node": "n3"}
    found = made(annotations=notes, **template)
    assert {name for name in ("n1", "n2", "n3") if fits(found, name)} == {"n3"}


def test_the_job_knows_better_than_its_template() -> None:
    template = {"metadata": {"annotations": {"restow.sh/target-node": "n3"}}}
    assert target_node(job(annotations={"restow.sh/target-node": "n2"}, options={"template": template})) == "n2"


def test_what_a_template_sets_wins() -> None:
    task = {"name": "seat", "template": {"metadata": {"labels": {"tier": "x"}}, "spec": {"priority": 7}}}
    found = made(
        pod(spec={"priority": 1, "tolerations": [{"operator": "Exists"}]}),
        metadata={"labels": {"team": "a"}, "annotations": {"note": "b", "restow.sh/migrating": "forged"}},
        spec={"queue": "gold", "ttl": "1h", "tasks": [task]},
    )
    [kept] = found.spec.tasks or []
    assert (found.spec.queue, found.spec.ttl, kept.name) == ("gold", "1h", "seat")
    assert (kept.template.spec.priority, len(kept.template.spec.tolerations or ())) == (7, 1)
    assert kept.template.metadata.labels == {"app": "web", "tier": "x"}
    assert found.metadata.labels == {"team": "a", "restow.sh/migration-job": "move"}
    assert found.metadata.annotations == {"note": "b", "restow.sh/migrating": "old", "restow.sh/moved-from": "n1"}
    assert not fits(found, "n1")


def test_an_end_in_the_template_needs_no_ttl() -> None:
    found = made(spec={"expires": "2030-01-01T00:00:00Z"})
    assert (found.spec.ttl, found.spec.expires) == (None, "2030-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("found", "ours"),
    [
        pytest.param(reservation(), True, id="made for it"),
        pytest.param(reservation(name="restow-other"), False, id="made for another"),
        pytest.param(reservation(metadata={"labels": {}}), False, id="a namesake"),
        pytest.param(reservation(name="spare"), False, id="given"),
    ],
)
def test_which_are_ours(found: Reservation, ours: bool) -> None:
    assert is_made_for(found, job()) is ours
    assert (job_uid(found) == "job-uid") is ours


def test_a_long_name_is_no_label() -> None:
    asked = job(ref=None)
    long = msgspec.structs.replace(asked, metadata=msgspec.structs.replace(asked.metadata, name="x" * 200))
    found = reservation_for(long, pod(), OWNERS, seconds=1)
    assert found.metadata.labels == {"restow.sh/migration-job": "job-uid"}
