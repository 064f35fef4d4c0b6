"""What a table column is, and how a kind says which columns it has.

A `Printer` is a list of columns and a function from (document, now) to the cells, in the same order. Columns of
priority 1 are shown by `-o wide` only; clients choose, so the cells always hold all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from restow.adapters.rest.tables.durations import age_since
from restow.adapters.rest.unchecked_documents import mapping, sequence, strings, text
from restow.model.objects import Document

Cells = list[Any]
NONE = "<none>"
UNSET = "<unset>"


class Column(msgspec.Struct, frozen=True):
    """A column definition of `meta.k8s.io` Table; all five members are always on the wire."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Printer(msgspec.Struct, frozen=True):
    columns: tuple[Column, ...]
    cells: Callable[[Document, float], Cells]


def wide_column(name: str) -> Column:
    return Column(name, priority=1)


def integer_column(name: str) -> Column:
    return Column(name, type="integer")


def boolean_column(name: str) -> Column:
    return Column(name, type="boolean")


NAME = Column("Name", format="name", description="Name is unique within a namespace.")
AGE = Column("Age", description="The time since the object was created.")
TEMPLATE_COLUMNS = (wide_column("Containers"), wide_column("Images"), wide_column("Selector"))


def make_printer(cells: Callable[[Document, float], Cells], *columns: Column | str) -> Printer:
    """A Printer with these columns; a bare string is a text column."""
    return Printer(tuple(Column(each) if isinstance(each, str) else each for each in columns), cells)


def name_of(document: Document) -> str:
    return text(document, "metadata", "name")


def age_of(document: Document, now: float) -> str:
    return age_since(text(document, "metadata", "creationTimestamp"), now)


def labels_text(labels: Document) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE


def selector_text(selector: Document) -> str:
    """A LabelSelector in the form label selectors are typed, by key; an empty one selects all and prints as none."""
    terms = [(key, f"{key}={value}") for key, value in mapping(selector, "matchLabels").items()]
    terms += [(text(each, "key"), _expression_text(each)) for each in sequence(selector, "matchExpressions")]
    return ",".join(term for _, term in sorted(terms)) or NONE


def _expression_text(expression: Document) -> str:
    key, operator = text(expression, "key"), text(expression, "operator")
    values = ",".join(sorted(strings(expression, "values")))
    match operator:
        case "In" | "NotIn":
            return f"{key} {operator.lower()} ({values})"
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
    return "<error>"


def container_cells(pod_template: Document) -> list[str]:
    """Names and images of the containers of a pod template, joined by commas."""
    containers = sequence(pod_template, "spec", "containers")
    return [",".join(text(each, "name") for each in containers), ",".join(text(each, "image") for each in containers)]


def abbreviated(items: list[str], shown: int = 3) -> str:
    more = len(items) - shown
    return ",".join(items[:shown]) + (f" + {more} more..." if more > 0 else "")
