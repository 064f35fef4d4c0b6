"""Rows of tables, at a fixed time."""

from __future__ import annotations

from typing import Any

from restow.adapters.rest.tables import build_table, printer_of
from restow.model.times import format_time

NOW = 1_800_000_000.0


def ago(seconds: float) -> str:
    return format_time(NOW - seconds)


def row(group: str, kind: str, document: dict[str, Any]) -> dict[str, Any]:
    """The cells of one object by column name, age included."""
    document = {"metadata": {"name": "x", "creationTimestamp": ago(90)}, **document}
    printer = printer_of(group, kind)
    made = build_table([document], {}, printer, now=NOW)
    names = [column["name"] for column in made["columnDefinitions"]]
    return dict(zip(names, made["rows"][0]["cells"], strict=True))
