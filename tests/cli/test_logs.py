"""Log lines with their fields, as text and as JSON."""

from __future__ import annotations

import json
import logging

from restow.running.logs import JsonFormatter, TextFormatter


def test_text_line_has_the_fields_after_the_message() -> None:
    record = logging.makeLogRecord({"msg": "rule failed", "levelname": "ERROR", "name": "world", "rule": "Nodes"})
    assert TextFormatter().format(record).endswith("ERROR world: rule failed rule='Nodes'")


def test_json_line_is_one_object() -> None:
    record = logging.makeLogRecord(
        {"msg": "rule %s", "args": ("failed",), "levelname": "ERROR", "name": "world", "created": 0.5, "pod": ("a", 1)}
    )
    assert json.loads(JsonFormatter().format(record)) == {
        "time": "1970-01-01T00:00:00.500000Z",
        "level": "error",
        "logger": "world",
        "message": "rule failed",
        "pod": ["a", 1],
    }
