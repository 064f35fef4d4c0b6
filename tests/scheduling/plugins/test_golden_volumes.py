"""The volume plugins give the answers of kube-scheduler's own, as golden_volumes/regenerate.py recorded them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from restow.scheduling.plugins.node_volume_limits import TOO_MANY
from restow.scheduling.plugins.volume_candidates import NO_SPACE, NO_VOLUME, NOT_REACHED, UNBOUND, VOLUME_GONE
from restow.scheduling.plugins.volume_restrictions import CLAIM_IN_USE, DISK_IN_USE
from restow.scheduling.plugins.volume_zone import REFUSED
from tests.scheduling.plugins.golden_volumes.answers import PLUGINS, differences

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden_volumes" / "kube-scheduler.json").read_text())
REASONS = [NO_SPACE, NO_VOLUME, NOT_REACHED, UNBOUND, VOLUME_GONE, CLAIM_IN_USE, DISK_IN_USE, REFUSED, TOO_MANY]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_volume_answers_are_kube_schedulers(plugin: str) -> None:
    wrong = {index: differences(case) for index, case in enumerate(CASES) if case["plugin"] == plugin}
    assert wrong
    assert not any(wrong.values()), {index: found for index, found in wrong.items() if found}


@pytest.mark.parametrize("reason", REASONS)
def test_golden_volume_questions_have_every_reason(reason: str) -> None:
    assert any(reason in json.dumps(case["answer"], ensure_ascii=False) for case in CASES)


def test_golden_volume_questions_take_volumes_and_select_nodes() -> None:
    written = [key for case in CASES for key in case["answer"].get("written", {})]
    assert sum(key.startswith("volume ") for key in written) > 5
    assert sum(key.startswith("claim ") for key in written) > 5
