"""Log lines on stderr: a constant message and fields, as text with key=value or as one JSON object per line."""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec

from restow.model.times import format_micro_time

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that were passed as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS}


class TextFormatter(logging.Formatter):
    """Appends the fields to the line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = [f"{key}={value!r}" for key, value in _extra_fields(record).items()]
        return " ".join([super().formatMessage(record), *fields])


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": format_micro_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def log_to_stderr(level: int = logging.WARNING, *, as_json: bool = False) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler])
