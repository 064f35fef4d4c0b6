"""The plugins give the answers of kube-scheduler's own, as golden/regenerate.py recorded them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scheduling.plugins.golden.answers import PLUGINS, differences

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "kube-scheduler.json").read_text())
SCORED = ["TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_filter_and_score_answers_are_kube_schedulers(plugin: str) -> None:
    wrong = {index: differences(case) for index, case in enumerate(CASES) if case["plugin"] == plugin}
    assert not any(wrong.values()), {index: found for index, found in wrong.items() if found}


@pytest.mark.parametrize("plugin", sorted(set(PLUGINS) - {"NodeResourcesBalancedAllocation", "ImageLocality"}))
def test_golden_questions_have_accepted_and_refused_nodes(plugin: str) -> None:
    answers = [case["answer"].get("filter", {}) for case in CASES if case["plugin"] == plugin]
    codes = {verdict["code"] for answer in answers for verdict in answer.values()}
    assert "Success" in codes and len(codes) > 1


@pytest.mark.parametrize("plugin", SCORED)
def test_golden_questions_have_scores_that_differ(plugin: str) -> None:
    answers = [case["answer"].get("scores", {}) for case in CASES if case["plugin"] == plugin]
    assert sum(len(set(scores.values())) > 1 for scores in answers) >= 5
