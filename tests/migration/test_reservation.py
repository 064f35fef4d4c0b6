"""The reservation that a migration asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.migration.reservation import (
    build_reservation,
    is_made_for_job,
    job_uid_of_reservation,
    target_node,
    template_problems,
)
from restow.model.affinity import node_constraint
from restow.model.objects import Pod, PodTemplate, Reservation
from restow.model.reservations.validation import spec_problems
from restow.model.resources import template_requests
from tests.migration.move_facts import OWNERS, job, pod, reservation

ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def made(of: Pod | None = None, *, annotations: Any = None, **template: Any) -> Reservation:
    asked = job(ref=None, options={"template": template} if template else {}, annotations=annotations or {})
    return build_reservation(asked, of or pod(), OWNERS, seconds=299.4)


def sized(requests: Any) -> Pod:
    return pod(spec={"containers": [{"name": "main", "resources": {"requests": requests}}]})


def affine(*terms: Any) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return pod(spec={"affinity": {"nodeAffinity": required}})


def fits(found: Reservation, name: str, **labels: str) -> bool:
    return node_constraint((found.spec.tasks or [])[0].template.spec).matches(name, labels)


def test_the_reservation_is_built_from_the_pod() -> None:
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
    assert spec_problems(found) == []


@pytest.mark.parametrize(
    ("asked", "seat"),
    [
        pytest.param({"cpu": "3", "memory": "1Gi"}, {"cpu": 3000, "memory": 2 << 30}, id="more, of some of it"),
        pytest.param({"cpu": "1"}, {"cpu": 2000, "memory": 2 << 30}, id="less"),
        pytest.param({"cpu": "2", "a.b/gpu": "1"}, {"cpu": 2000, "memory": 2 << 30, "a.b/gpu": 1}, id="something else"),
    ],
)
def test_the_reservation_is_large_enough_for_a_successor_that_requests(asked: Any, seat: Any) -> None:
    old, anew = sized({"cpu": "2", "memory": "2Gi"}), PodTemplate(spec=sized(asked).spec)
    found = build_reservation(job(ref=None), old, OWNERS, seconds=299.4, successor_template=anew)
    assert template_requests((found.spec.tasks or [])[0].template.spec) == seat
    assert spec_problems(found) == []


def test_containers_in_the_job_template_set_the_size_of_the_seat() -> None:
    small = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    asked = job(ref=None, options={"template": {"spec": {"tasks": [{"name": "a", "template": {"spec": small}}]}}})
    found = build_reservation(
        asked, pod(), OWNERS, seconds=299.4, successor_template=PodTemplate(spec=sized({"cpu": "3"}).spec)
    )
    assert template_requests((found.spec.tasks or [])[0].template.spec) == {"cpu": 1000}


def test_the_owners_of_the_seat_are_the_controllers_of_the_pod() -> None:
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
def test_the_reservation_excludes_the_source_node(of: Pod, labels: dict[str, str], nodes: set[str]) -> None:
    found = made(of)
    assert {name for name in ("n1", "n2", "n3") if fits(found, name, **labels)} == nodes


@pytest.mark.parametrize(
    "template", [{}, {"metadata": {"annotations": {"restow.sh/target-node": "n3"}}}], ids=["job", "template"]
)
def test_the_reservation_allows_only_the_target_node(template: Any) -> None:
    notes = {} if template else {"restow.sh/target-node": "n3"}
    found = made(annotations=notes, **template)
    assert {name for name in ("n1", "n2", "n3") if fits(found, name)} == {"n3"}


def test_the_target_on_the_job_overrules_that_on_its_template() -> None:
    template = {"metadata": {"annotations": {"restow.sh/target-node": "n3"}}}
    assert target_node(job(annotations={"restow.sh/target-node": "n2"}, options={"template": template})) == "n2"


def test_fields_set_in_the_job_template_overrule_what_is_built() -> None:
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


@pytest.mark.parametrize(("target", "nodes"), [(None, {"n2", "n3"}), ("n3", {"n3"})])
def test_affinity_in_the_job_template_does_not_admit_the_source_node(target: str | None, nodes: set[str]) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ZONE]}}
    task = {"name": "seat", "template": {"spec": {"affinity": {"nodeAffinity": required}}}}
    found = made(annotations={"restow.sh/target-node": target} if target else None, spec={"tasks": [task]})
    assert {name for name in ("n1", "n2", "n3") if fits(found, name, zone="a")} == nodes
    assert not any(fits(found, name, zone="b") for name in ("n1", "n2", "n3"))


def test_annotations_and_node_names_of_the_template_task_are_kept() -> None:
    notes = {"metadata": {"annotations": {"note": "b"}}}
    [task] = made(spec={"tasks": [{"name": "s", "template": notes, "reservationNodeNames": ["n3"]}]}).spec.tasks or []
    assert (task.template.metadata.annotations, task.reservation_node_names) == ({"note": "b"}, ["n3"])


def test_a_job_template_cannot_ask_for_several_seats() -> None:
    asked = job(ref=None, options={"template": {"spec": {"minAvailable": 2}}})
    found = template_problems(asked, None, ())
    assert [one.path for one in found] == ["spec.reservationOptions.template.spec.minAvailable"]


def test_a_job_template_with_expires_gets_no_ttl() -> None:
    found = made(spec={"expires": "2030-01-01T00:00:00Z"})
    assert (found.spec.ttl, found.spec.expires) == (None, "2030-01-01T00:00:00Z")


def test_the_reservation_has_no_owner_reference_so_that_it_outlives_its_job() -> None:
    assert not made().metadata.owner_references


@pytest.mark.parametrize(
    ("found", "ours"),
    [
        pytest.param(reservation(), True, id="made for it"),
        pytest.param(reservation(name="restow-other"), False, id="made for another"),
        pytest.param(reservation(metadata={"labels": {}}), False, id="a namesake"),
        pytest.param(reservation(name="spare"), False, id="given"),
    ],
)
def test_reservations_created_for_a_job_are_recognised(found: Reservation, ours: bool) -> None:
    assert is_made_for_job(found, job()) is ours
    assert (job_uid_of_reservation(found) == "job-uid") is ours


def test_a_job_name_too_long_for_a_label_is_replaced_by_its_uid() -> None:
    asked = job(ref=None)
    long = msgspec.structs.replace(asked, metadata=msgspec.structs.replace(asked.metadata, name="x" * 200))
    found = build_reservation(long, pod(), OWNERS, seconds=1)
    assert found.metadata.labels == {"restow.sh/migration-job": "job-uid"}


def test_a_job_template_with_match_policy_template_is_refused() -> None:
    """It is kept anywhere but where the pod is, which no pod asks for."""
    asked = job(ref=None, options={"template": {"spec": {"matchPolicy": "Template"}}})
    found = template_problems(asked, None, ())
    assert [one.path for one in found] == ["spec.reservationOptions.template.spec.matchPolicy"]
