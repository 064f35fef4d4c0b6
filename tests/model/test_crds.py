"""The generated CRDs: structural, without defaults, and good for the examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restow.adapters.memory import documents
from restow.model.crds import QUANTITY_PATTERN, custom_resource_definitions
from restow.model.kinds import OWN_KINDS, POD_GROUP, POD_MIGRATION_JOB, QUEUE, RESERVATION, Kind, kind_of
from restow.model.quantity import Quantity, QuantityError
from restow.model.wire import convert_document, read_documents
from tests.narrowing import present

EXAMPLES = Path(__file__).parents[2] / "examples"
Schema = dict[str, Any]
ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}


DEFINITIONS = {definition["metadata"]["name"]: definition for definition in custom_resource_definitions()}


def version_of(kind: Kind[Any]) -> dict[str, Any]:
    version: dict[str, Any] = DEFINITIONS[kind.qualified_name]["spec"]["versions"][0]
    return version


def schema_of(kind: Kind[Any]) -> Schema:
    schema: Schema = version_of(kind)["schema"]["openAPIV3Schema"]
    return schema


def at(kind: Kind[Any], path: str) -> Schema:
    """The schema of one field, such as spec.tasks[].template."""
    schema = schema_of(kind)
    for step in path.split("."):
        schema = schema["properties"][step.removesuffix("[]")]
        if step.endswith("[]"):
            schema = schema["items"]
    return schema


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, member in schema.get("properties", {}).items():
        yield from nodes(member, f"{path}.{name}")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from nodes(schema[part], f"{path}.{part}")


@pytest.mark.parametrize("kind", OWN_KINDS, ids=str)
def test_crd_schemas_are_structural(kind: Kind[Any]) -> None:
    for path, schema in nodes(schema_of(kind)):
        untyped = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
        assert "type" in schema or untyped, path
        assert not {"$ref", "default", "oneOf", "allOf", "title", "$defs"} & set(schema), path
        assert not {"properties", "additionalProperties"} <= set(schema), path
        assert "anyOf" not in schema or schema["x-kubernetes-int-or-string"], path
        assert not ("enum" in schema and schema.get("nullable")), path
        assert set(schema.get("required", ())) <= set(schema.get("properties", ())), path
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            assert key in schema["items"]["required"], path


@pytest.mark.parametrize(
    ("kind", "name", "scope", "short"),
    [
        (RESERVATION, "reservations.batch.volcano.sh", "Namespaced", "resv"),
        (QUEUE, "queues.scheduling.volcano.sh", "Cluster", "q"),
        (POD_GROUP, "podgroups.scheduling.volcano.sh", "Namespaced", "pg"),
        (POD_MIGRATION_JOB, "podmigrationjobs.scheduling.koordinator.sh", "Cluster", "pmj"),
    ],
    ids=str,
)
def test_crd_names_scope_and_status(kind: Kind[Any], name: str, scope: str, short: str) -> None:
    definition, version = DEFINITIONS[name], version_of(kind)
    assert definition["spec"]["scope"] == scope
    assert short in definition["spec"]["names"]["shortNames"]
    assert (version["name"], version["subresources"]) == (kind.version, {"status": {}})
    always = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert [name for name in always if name != "Message"][-1] == "Age", "but for the sentence, which is long"


@pytest.mark.parametrize(
    ("kind", "always", "wide"),
    [
        pytest.param(
            RESERVATION,
            {
                "Phase": ".status.state.phase",
                "Reason": ".status.state.reason",
                "Min": ".status.minAvailable",
                "Pending": ".status.pending",
                "Available": ".status.available",
                "Succeeded": ".status.succeeded",
                "Failed": ".status.failed",
                "Owner": ".status.currentOwner.name",
                "Queue": ".spec.queue",
                "TTL": ".spec.ttl",
                "Age": ".metadata.creationTimestamp",
            },
            {"Message": ".status.state.message"},
            id="Reservation",
        ),
        pytest.param(
            POD_MIGRATION_JOB,
            {
                "Phase": ".status.phase",
                "PodNamespace": ".spec.podRef.namespace",
                "Pod": ".spec.podRef.name",
                "From": r".metadata.annotations.restow\.sh/moved-from",
                "To": ".status.nodeName",
                "Age": ".metadata.creationTimestamp",
                "Message": ".status.message",
            },
            {
                "Reason": ".status.reason",
                "NewPod": ".status.podRef.name",
                "Mode": ".spec.mode",
                "Reservation": ".spec.reservationOptions.reservationRef.name",
                "TTL": ".spec.ttl",
            },
            id="PodMigrationJob",
        ),
    ],
)
def test_printer_columns_of_our_kinds(kind: Kind[Any], always: dict[str, str], wide: dict[str, str]) -> None:
    columns = version_of(kind)["additionalPrinterColumns"]
    assert [(column["name"], column["jsonPath"], column.get("priority", 0)) for column in columns] == [
        *((name, path, 0) for name, path in always.items()),
        *((name, path, 1) for name, path in wide.items()),
    ]


@pytest.mark.parametrize("kind", OWN_KINDS, ids=str)
def test_printer_columns_point_at_fields(kind: Kind[Any]) -> None:
    for column in version_of(kind)["additionalPrinterColumns"]:
        if not column["jsonPath"].startswith(".metadata"):
            path = re.sub(r"\[\?\(.*?\)\]", "[]", column["jsonPath"].removeprefix("."))
            assert at(kind, path)["type"] in (column["type"], "array")  # which is shown as JSON


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        (POD_MIGRATION_JOB, "spec", {"required": ["podRef"]}),
        (POD_MIGRATION_JOB, "spec.podRef", {"required": ["name", "namespace"]}),
        (POD_MIGRATION_JOB, "spec.mode", {"enum": ["ReservationFirst", "EvictDirectly"]}),
        (POD_MIGRATION_JOB, "status.phase", {"enum": ["Pending", "Running", "Succeed", "Failed", "Aborted"]}),
        (POD_MIGRATION_JOB, "status.conditions", {"x-kubernetes-list-map-keys": ["type"]}),
        (POD_MIGRATION_JOB, "spec.ttl", {"type": "string", "format": "duration"}),
        (RESERVATION, "spec.expires", {"type": "string", "format": "date-time", "nullable": True}),
        (RESERVATION, "spec.matchPolicy", {"enum": ["Template", "Fits"]}),
        (RESERVATION, "spec.minAvailable", {"type": "integer", "format": "int32", "minimum": 0}),
        (RESERVATION, "spec.tasks[].template.spec.volumes[]", {"x-kubernetes-preserve-unknown-fields": True}),
        (RESERVATION, "spec.tasks[].template.spec.securityContext", {"x-kubernetes-preserve-unknown-fields": True}),
        (RESERVATION, "spec.tasks[].template.metadata", {"x-kubernetes-preserve-unknown-fields": True}),
        (RESERVATION, "status.conditions", {"x-kubernetes-list-map-keys": ["status"]}),
        (RESERVATION, "status.placements[]", {"required": ["index", "nodeName", "task"]}),
        (RESERVATION, "status", {"x-kubernetes-map-type": "atomic"}),
        (QUEUE, "spec.affinity", {"x-kubernetes-preserve-unknown-fields": True}),
        (POD_GROUP, "spec.networkTopology", {"x-kubernetes-preserve-unknown-fields": True}),
        (RESERVATION, "spec.tasks[].policies", {"x-kubernetes-preserve-unknown-fields": True}),
        (QUEUE, "spec.guarantee.policy", {"enum": ["Best-Effort", "Guaranteed"]}),
        (QUEUE, "spec.guarantee.percentage.value", {"type": "number", "minimum": 0, "maximum": 1}),
        (POD_GROUP, "status", {"x-kubernetes-preserve-unknown-fields": True}),
    ],
    ids=str,
)
def test_crd_field_schemas(kind: Kind[Any], path: str, expected: Schema) -> None:
    assert at(kind, path).items() >= expected.items()


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("spec", "schedulerName minAvailable tasks queue owners ttl expires matchPolicy"),
        ("spec.tasks[]", "name replicas template reservationNodeNames"),
        ("spec.owners[]", "object labelSelector controller"),
        ("status", "state minAvailable taskStatusCount pending available succeeded failed conditions"),
        ("status", "currentOwner currentOwners allocatable allocated placements"),
        ("status.state", "phase reason message lastTransitionTime"),
        ("status.conditions[]", "status lastTransitionTime reason message"),
        ("status.placements[]", "task index nodeName podRef"),
    ],
)
def test_a_reservation_has_every_field_of_its_proposal_and_ours(path: str, names: str) -> None:
    assert set(names.split()) <= at(RESERVATION, path)["properties"].keys()


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("spec", "paused ttl mode podRef reservationOptions deleteOptions"),
        ("spec.reservationOptions", "reservationRef template preemptionOptions"),
        ("spec.deleteOptions", "apiVersion kind gracePeriodSeconds preconditions propagationPolicy dryRun"),
        ("spec.deleteOptions", "orphanDependents ignoreStoreReadErrorWithClusterBreakingPotential"),
        ("status", "phase status reason message conditions nodeName podRef"),
        ("status", "preemptedPodsRef preemptedPodsReservation"),
        ("status.conditions[]", "type status lastProbeTime lastTransitionTime reason message"),
        ("status.preemptedPodsReservation[]", "namespace name nodeName phase preemptedPodRef podsRef"),
    ],
)
def test_a_pod_migration_job_has_every_field_of_its_proposal(path: str, names: str) -> None:
    assert set(names.split()) <= at(POD_MIGRATION_JOB, path)["properties"].keys()


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *((RESERVATION, "spec"), (RESERVATION, "spec.tasks[]"), (RESERVATION, "spec.owners[]")),
        *((QUEUE, "spec"), (QUEUE, "spec.guarantee"), (QUEUE, "spec.guarantee.percentage"), (POD_GROUP, "spec")),
        *((POD_MIGRATION_JOB, "spec"), (POD_MIGRATION_JOB, "spec.podRef"), (POD_MIGRATION_JOB, "spec.deleteOptions")),
        *((RESERVATION, f"spec.tasks[].template{path}") for path in ("", ".spec", ".spec.containers[]")),
        (RESERVATION, "spec.tasks[].template.spec.containers[].resources"),
        (POD_MIGRATION_JOB, "spec.reservationOptions.template"),
        (POD_MIGRATION_JOB, "spec.reservationOptions.template.spec"),
    ],
    ids=str,
)
def test_a_misspelt_field_is_not_kept(kind: Kind[Any], path: str) -> None:
    assert "x-kubernetes-preserve-unknown-fields" not in at(kind, path)


@pytest.mark.parametrize(
    ("path", "type"),
    [
        ("spec", "core.v1.PodSpec"),
        ("spec.containers[]", "core.v1.Container"),
        ("spec.initContainers[]", "core.v1.Container"),
        ("spec.containers[].resources", "core.v1.ResourceRequirements"),
    ],
)
def test_a_template_has_every_field_of_a_pod(path: str, type: str) -> None:
    known = msgspec.json.decode((files(documents) / "types.json").read_bytes())["types"][type]
    assert set(known) <= at(RESERVATION, f"spec.tasks[].template.{path}")["properties"].keys()


def test_generation_is_repeatable_and_plain_json() -> None:
    assert json.loads(json.dumps(custom_resource_definitions())) == custom_resource_definitions()


@given(
    st.text("0123456789.+-eEKMGTPinumk", max_size=8) | st.from_regex(r"[0-9]{1,2}[eE][+-]?[0-9]{1,5}", fullmatch=True)
)
@example("0E0000")
@example("1e1000")
@example("1e1001")
@example("1e-1001")
def test_quantity_pattern_accepts_exactly_quantities(text: str) -> None:
    try:
        Quantity.parse(text)
        good = True
    except QuantityError:
        good = False
    assert bool(re.search(QUANTITY_PATTERN, text)) is good


# --- the examples -----------------------------------------------------------------------------------------------------


def violations(schema: Schema, value: Any, path: str) -> Iterator[str]:
    """A small independent check of a value against a structural schema, pruning included."""
    types = {"string": str, "boolean": bool, "object": dict, "array": list, "integer": int, "number": int | float}
    expected = int | str if schema.get("x-kubernetes-int-or-string") else types.get(schema.get("type", ""), object)
    if not isinstance(value, expected) or ("enum" in schema and value not in schema["enum"]):
        yield f"{path}: {value!r}"
        return
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{path}: {value!r} against the pattern"
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from violations(schema.get("items", ANYTHING), item, f"{path}[{index}]")
    if isinstance(value, dict):
        members, rest = schema.get("properties", {}), schema.get("additionalProperties")
        yield from (f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value)
        for name, item in value.items():
            if name in members or rest is not None:
                yield from violations(members.get(name, rest), item, f"{path}.{name}")
            elif not schema.get("x-kubernetes-preserve-unknown-fields") and path != ".metadata":
                yield f"{path}.{name}: would be pruned"


@pytest.mark.parametrize("name", ["reservation", "reserved-deployment", "queue", "podgroup", "podmigrationjob"])
def test_examples_are_accepted_unchanged_and_read(name: str) -> None:
    manifest, *_ = read_documents((EXAMPLES / f"{name}.yaml").read_bytes(), name)
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    assert list(violations(schema_of(kind), manifest, "")) == []
    typed = convert_document(kind.type, manifest, name)
    again = msgspec.convert(msgspec.to_builtins(typed), kind.type)
    assert again == typed


def test_reservation_example_has_the_documented_spec() -> None:
    (manifest,) = read_documents((EXAMPLES / "reservation.yaml").read_bytes(), "reservation.yaml")
    spec = convert_document(RESERVATION.type, manifest).spec
    assert (spec.ttl, spec.min_available, [task.replicas for task in present(spec.tasks)]) == ("600s", 3, [2, 1])


def test_the_uncorrected_queue_example_is_refused_with_every_path() -> None:
    spec = {"guarantee": {"resource": {"cpu": "2c", "memory": "4G"}, "percentage": {"value": "0.2"}}}
    with pytest.raises(ValueError, match=r"guarantee\.percentage\.value.*guarantee\.resource\.cpu: quantity '2c'"):
        convert_document(QUEUE.type, {"spec": spec})


@pytest.mark.parametrize("kind", OWN_KINDS, ids=str)
@pytest.mark.parametrize("section", ["spec", "status"])
def test_every_field_of_our_kinds_has_a_description(kind: Kind[Any], section: str) -> None:
    fields = at(kind, section)["properties"]
    described = {name for name, field in fields.items() if field.get("description")}
    others = {name for name, field in fields.items() if set(field) == {"x-kubernetes-preserve-unknown-fields"}}
    assert described | others == set(fields)


def test_descriptions_say_more_than_the_type() -> None:
    assert at(RESERVATION, "spec.owners[].controller")["description"].startswith("A workload")
