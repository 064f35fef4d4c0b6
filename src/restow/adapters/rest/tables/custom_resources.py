"""Rows of custom resources: the columns their CustomResourceDefinition asks for.

In: `additionalPrinterColumns` of one version. Out: a Printer. Without columns a custom resource prints name and age.
"""

from __future__ import annotations

from typing import Any

import msgspec

from restow.adapters.rest.tables.columns import NAME, Cells, Column, Printer, name_of
from restow.adapters.rest.tables.durations import age_since
from restow.adapters.rest.tables.json_path import Path, PathError, compile_path
from restow.adapters.rest.unchecked_documents import number, text
from restow.model.objects import Document

AGE_COLUMN: Document = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def custom_printer(printer_columns: list[Document]) -> Printer:
    asked = printer_columns or [AGE_COLUMN]
    columns = tuple(_column(each) for each in asked)
    paths = [_path(text(each, "jsonPath")) for each in asked]

    def cells(document: Document, now: float) -> Cells:
        shown = [_cell(column, path(document), now) for column, path in zip(columns, paths, strict=True)]
        return [name_of(document), *shown]

    return Printer((NAME, *columns), cells)


def _column(asked: Document) -> Column:
    return Column(
        name=text(asked, "name"),
        type=text(asked, "type"),
        format=text(asked, "format"),
        description=text(asked, "description") or f"The value at {text(asked, 'jsonPath')}.",
        priority=number(asked, "priority"),
    )


def _path(path: str) -> Path:
    """The compiled path; an unreadable one finds nothing, because one broken column must not hide the others."""
    try:
        return compile_path(path)
    except PathError:
        return lambda document: []


def _cell(column: Column, values: list[Any], now: float) -> Any:
    value = values[0] if values else None
    match column.type, value:
        case _, None:
            return None
        case "string", str():
            return value
        case "string", _:
            return msgspec.json.encode(value).decode()
        case "boolean", bool():
            return value
        case "integer", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return float(value)
        case "date", str():
            return age_since(value, now)
    return None
