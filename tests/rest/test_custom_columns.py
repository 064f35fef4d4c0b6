"""Columns of custom resources: paths, and what is shown without any."""

from __future__ import annotations

from typing import Any

import pytest

from restow.adapters.rest.tables import build_table, custom_printer, printer_of
from restow.adapters.rest.tables.json_path import PathError, compile_path
from tests.rest.rows import NOW, ago

OBJECT = {
    "metadata": {"name": "r", "creationTimestamp": ago(10), "labels": {"a.b/c": "dotted"}},
    "spec": {"nodes": ["n1", "n2"], "size": 3.7, "on": True},
    "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}], "n": {"x": 1}},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.size", [3.7]),
        (".spec.nodes[0]", ["n1"]),
        (".spec.nodes[-1]", ["n2"]),
        (".spec.nodes[-1:]", ["n2"]),
        (".spec.nodes[9]", []),
        (".spec.nodes[*]", ["n1", "n2"]),
        (".metadata.labels['a.b/c']", ["dotted"]),
        (r".metadata.labels.a\.b/c", ["dotted"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.absent.deeper", []),
        (".spec.size.deeper", []),
    ],
)
def test_json_path_finds_values(path: str, values: list[Any]) -> None:
    assert compile_path(path)(OBJECT) == values


@pytest.mark.parametrize("path", ["spec", ".a[", ".a..b", ".a[?(@.b>1)]", ".a b"])
def test_paths_that_columns_may_not_use_are_refused(path: str) -> None:
    with pytest.raises(PathError):
        compile_path(path)


def test_custom_columns_follow_the_definition() -> None:
    columns: list[dict[str, Any]] = [
        {"name": "Nodes", "type": "string", "jsonPath": ".spec.nodes"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Wrong", "type": "boolean", "jsonPath": ".spec.size"},
        {"name": "Broken", "type": "string", "jsonPath": ".a["},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    printer = custom_printer(columns)
    assert printer.cells(OBJECT, NOW) == ["r", '["n1","n2"]', 3, True, None, None, "10s"]
    assert [column.priority for column in printer.columns] == [0, 0, 1, 0, 0, 0, 0]


def test_without_columns_a_custom_resource_prints_name_and_age() -> None:
    assert custom_printer([]).cells(OBJECT, NOW) == ["r", "10s"]


@pytest.mark.parametrize(
    ("include", "embedded"),
    [("Metadata", "PartialObjectMetadata"), ("Object", "Pod"), ("None", None)],
)
def test_table_rows_embed_the_requested_object_form(include: Any, embedded: str | None) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}}
    made = build_table([pod], {"resourceVersion": "7"}, printer_of("", "Pod"), now=NOW, include=include)
    assert made["metadata"] == {"resourceVersion": "7"}
    assert made["rows"][0].get("object", {}).get("kind") == embedded
