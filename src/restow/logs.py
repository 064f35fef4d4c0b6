"""Log lines on stderr: a constant message, then the facts as key=value."""

from __future__ import annotations

import logging
import sys

_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class FactsFormatter(logging.Formatter):
    """Adds what was given as `extra` to the line."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        facts = [f"{key}={value!r}" for key, value in vars(record).items() if key not in _KNOWN]
        return " ".join([super().formatMessage(record), *facts])


def log_to_stderr(level: int = logging.WARNING) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FactsFormatter())
    logging.basicConfig(level=level, handlers=[handler])
