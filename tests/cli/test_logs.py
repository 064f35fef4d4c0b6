"""Log lines carry their facts."""

from __future__ import annotations

import logging

from restow.logs import FactsFormatter


def test_facts_follow_the_message() -> None:
    record = logging.makeLogRecord({"msg": "rule failed", "levelname": "ERROR", "name": "world", "rule": "Nodes"})
    assert FactsFormatter().format(record).endswith("ERROR world: rule failed rule='Nodes'")
