"""`Table` answers: what kubectl prints, computed by the server.

In: documents, their kind and the time now. Out: a `meta.k8s.io` Table with one row per object; each row also carries
the object's metadata, the whole object, or neither, as the client asks with includeObject.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from restow.adapters.rest.partial_metadata import partial_metadata
from restow.adapters.rest.tables import cluster, pods, storage, workloads
from restow.adapters.rest.tables.columns import Printer
from restow.adapters.rest.tables.custom_resources import custom_printer
from restow.model.objects import Document

__all__ = ["BUILT_IN", "Include", "Printer", "build_table", "custom_printer", "printer_of"]

Include = Literal["Metadata", "Object", "None"]

BUILT_IN: dict[tuple[str, str], Printer] = {
    ("", "Pod"): pods.POD,
    **workloads.PRINTERS,
    **cluster.PRINTERS,
    **storage.PRINTERS,
}


def printer_of(group: str, kind: str) -> Printer:
    """The columns of a built-in kind."""
    return BUILT_IN.get((group, kind), cluster.PLAIN)


def build_table(
    items: list[Document],
    list_metadata: Document,
    printer: Printer,
    *,
    now: float,
    include: Include = "Metadata",
    version: str = "v1",
    headers: bool = True,
) -> Document:
    """A Table of these items; `headers` is False for all but the first event of a watch."""
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {
            key: list_metadata[key]
            for key in ("resourceVersion", "continue", "remainingItemCount")
            if list_metadata.get(key)
        },
        "columnDefinitions": [msgspec.to_builtins(column) for column in printer.columns] if headers else [],
        "rows": [_row(item, printer, now, include, version) for item in items],
    }


def _row(item: Document, printer: Printer, now: float, include: Include, version: str) -> Document:
    row: Document = {"cells": printer.cells(item, now)}
    if printer is pods.POD and (conditions := pods.row_conditions(item)):
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = item
    elif include == "Metadata":
        row["object"] = partial_metadata(item, version)
    return row
