"""Log lines on stderr: a constant message, then the facts, as key=value or each line as one JSON object."""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec

from restow.model.times import format_micro_time

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _KNOWN}


class FactsFormatter(logging.Formatter):
    """Adds the facts to the line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        facts = [f"{key}={value!r}" for key, value in _facts(record).items()]
        return " ".join([super().formatMessage(record), *facts])


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": format_micro_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def log_to_stderr(level: int = logging.WARNING, *, as_json: bool = False) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else FactsFormatter())
    logging.basicConfig(level=level, handlers=[handler])
