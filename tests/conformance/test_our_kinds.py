"""The four kinds Restow brings: every server accepts their definitions and the examples."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restow.model.crds import custom_resource_definitions
from restow.model.objects import Document
from restow.model.wire import read_documents
from restow.ports import JSON_PATCH, MERGE_PATCH, Conflict, Invalid
from tests.conformance.server import Server

EXAMPLES = {path.name: path.read_bytes() for path in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))}


@pytest.fixture
async def installed(server: Server) -> AsyncIterator[Server]:
    """The server with our definitions, which stay: other tests may be using them."""
    for document in custom_resource_definitions():
        await server.apply("customresourcedefinitions", document, "restow", force="true")
        await server.learn(document)
    yield server


@pytest.mark.parametrize(
    "document", custom_resource_definitions(), ids=lambda document: str(document["metadata"]["name"])
)
async def test_a_definition_is_accepted_when_strict(server: Server, document: Document) -> None:
    await server.create("customresourcedefinitions", probe(document), fieldValidation="Strict", dryRun="All")


def probe(document: Document) -> Document:
    """The same definition under another group, so that it is new wherever the real one is installed."""
    group = f"probe.{document['spec']['group']}"
    spec = {**document["spec"], "group": group}
    annotations = {"api-approved.kubernetes.io": "unapproved, a test"}
    return {
        **document,
        "metadata": {"name": f"{spec['names']['plural']}.{group}", "annotations": annotations},
        "spec": spec,
    }


@pytest.mark.parametrize("name", EXAMPLES)
async def test_example_manifests_apply(installed: Server, name: str) -> None:
    for document in read_documents(EXAMPLES[name], name):
        plural = plural_of(document)
        meta = {key: value for key, value in document["metadata"].items() if key != "namespace"}
        await installed.apply(plural, {**document, "metadata": meta}, "someone", fieldValidation="Strict", dryRun="All")


def plural_of(document: Document) -> str:
    for known in custom_resource_definitions():
        if (known["spec"]["names"]["kind"], known["spec"]["group"]) == (
            document["kind"],
            document["apiVersion"].split("/")[0],
        ):
            return str(known["metadata"]["name"])
    return f"{document['kind'].lower()}s"


GROUP = "scheduling.volcano.sh/v1beta1"


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "field"),
    [
        pytest.param(GROUP, "Queue", {"weihgt": 2}, "spec.weihgt", id="queue"),
        pytest.param(GROUP, "PodGroup", {"minMembers": 3}, "spec.minMembers", id="gang"),
        pytest.param(
            "scheduling.koordinator.sh/v1alpha1",
            "PodMigrationJob",
            {"podRef": {"namespace": "default", "name": "a", "node": "b"}},
            "spec.podRef.node",
            id="job",
        ),
        pytest.param(
            "batch.volcano.sh/v1alpha1", "Reservation", {"tasks": [{"replica": 2}]}, "spec.tasks[0].replica", id="task"
        ),
    ],
)
async def test_a_misspelt_field_is_refused(
    installed: Server, api_version: str, kind: str, spec: Document, field: str
) -> None:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "misspelt"}, "spec": spec}
    with pytest.raises(Invalid) as refused:
        await installed.create(plural_of(document), document, fieldValidation="Strict", dryRun="All")
    assert f'unknown field "{field}"' in str(refused.value)


async def test_upstream_fields_that_we_do_not_use_are_kept(installed: Server) -> None:
    queue = {"apiVersion": GROUP, "kind": "Queue", "metadata": {"name": "kept"}, "spec": {"affinity": {"any": [1]}}}
    kept = await installed.create("queues.scheduling.volcano.sh", queue, fieldValidation="Strict", dryRun="All")
    assert kept["spec"]["affinity"] == {"any": [1]}


# --- the status of a reservation, as the scheduler writes it ----------------------------------------------------------

RESERVATIONS = "reservations.batch.volcano.sh"
SEAT = {"task": "web", "index": 0, "nodeName": "n1"}


def status(version: str, *placements: Document) -> list[Document]:
    """A write of the whole status, guarded by the version that was read."""
    value = {"state": {"phase": "Available"}, "available": 1, "observedGeneration": 1, "placements": list(placements)}
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/status", "value": value},
    ]


@pytest.fixture
async def reservation(installed: Server) -> Document:
    task = {"name": "web", "replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "a"}]}}}
    document = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "r"}}
    return await installed.create(RESERVATIONS, {**document, "spec": {"tasks": [task]}})


async def test_the_status_is_written_whole_and_the_spec_stays(installed: Server, reservation: Document) -> None:
    version = reservation["metadata"]["resourceVersion"]
    for taken in ({}, {"podRef": {"name": "p", "uid": "u"}}):
        seat = {**SEAT, **taken}
        written = await installed.patch(RESERVATIONS, "r", JSON_PATCH, status(version, seat), sub="status")
        assert written["status"]["placements"] == [seat]
        assert (written["spec"], written["metadata"]["generation"]) == (reservation["spec"], 1)
        version = written["metadata"]["resourceVersion"]


async def test_a_status_worked_out_from_an_older_version_is_a_conflict(
    installed: Server, reservation: Document
) -> None:
    version = reservation["metadata"]["resourceVersion"]
    await installed.patch(RESERVATIONS, "r", JSON_PATCH, status(version, SEAT), sub="status")
    with pytest.raises(Conflict):
        await installed.patch(RESERVATIONS, "r", JSON_PATCH, status(version), sub="status")
    assert (await installed.get(RESERVATIONS, "r"))["status"]["placements"] == [SEAT]


# --- what a job moves, and how ----------------------------------------------------------------------------------------

JOBS = "podmigrationjobs.scheduling.koordinator.sh"
POD = {"namespace": "default", "name": "web-0"}


@pytest.fixture
async def job(installed: Server) -> AsyncIterator[str]:
    """A job that says neither which life of its pod is meant, nor how it moves."""
    document = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob"}
    meta = {"generateName": "frozen-"}
    made = await installed.create(JOBS, {**document, "metadata": meta, "spec": {"podRef": {**POD, "uid": ""}}})
    yield made["metadata"]["name"]
    await installed.delete(JOBS, made["metadata"]["name"])


SETTLED = {"podRef": {"uid": "u1"}, "mode": "ReservationFirst"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"podRef": {"name": "web-1"}}, "the pod of a job is immutable", id="another pod"),
        pytest.param({"podRef": {"namespace": "shop"}}, "the pod of a job is immutable", id="pod in another namespace"),
        pytest.param({"podRef": {"uid": "u2"}}, "the pod of a job is immutable", id="another UID"),
        pytest.param({"podRef": {"uid": None}}, "uid cannot be removed", id="UID removed"),
        pytest.param({"mode": "EvictDirectly"}, "mode is immutable", id="another mode"),
        pytest.param({"mode": None}, "mode cannot be removed", id="mode removed"),
    ],
)
async def test_migration_job_pod_and_options_are_immutable(
    installed: Server, job: str, change: Document, why: str
) -> None:
    settled = await installed.patch(JOBS, job, MERGE_PATCH, {"spec": SETTLED})
    with pytest.raises(Invalid, match=why):
        await installed.patch(JOBS, job, MERGE_PATCH, {"spec": change})
    later = await installed.patch(JOBS, job, MERGE_PATCH, {"spec": {"paused": True, "ttl": "10m"}})
    assert later["spec"] == {**settled["spec"], "paused": True, "ttl": "10m"}


@pytest.mark.parametrize("end", ["Succeed", "Failed", "Aborted"])
async def test_phase_of_an_ended_job_is_immutable(installed: Server, job: str, end: str) -> None:
    await installed.patch(JOBS, job, MERGE_PATCH, {"status": {"phase": "Running"}}, sub="status")
    await installed.patch(JOBS, job, MERGE_PATCH, {"status": {"phase": end, "message": "so"}}, sub="status")
    with pytest.raises(Invalid, match="the phase of an ended job is immutable"):
        await installed.patch(JOBS, job, MERGE_PATCH, {"status": {"phase": "Pending"}}, sub="status")
    later = await installed.patch(JOBS, job, MERGE_PATCH, {"status": {"message": "it is"}}, sub="status")
    assert later["status"]["phase"] == end
