"""The arguments of Defragmentation: spellings, and every mistake with its path."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.wire import WireError
from restow.planning.arguments import read_defragmentation


def test_defragmentation_arguments_are_read_in_the_spellings_of_the_documents() -> None:
    read = read_defragmentation({"ResourceType": "memory", "fragmentThresholds": {"memory": 60}})
    assert (read.resource, read.defragment_thresholds, read.low_thresholds, read.protection_thresholds) == (
        "memory",
        {"memory": 60},
        {"memory": 30},
        {"memory": 95},
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"speed": 1}, "speed: unknown field", id="unknown argument"),
        pytest.param(
            {"lowThresholds": {"cpu": 101}},
            "lowThresholds.cpu: must be from 0 to 100 percent",
            id="percentage above 100",
        ),
        pytest.param(
            {"lowThresholds": {"cpu": 80}},
            "is 80, above defragmentThresholds.cpu, which is 70",
            id="crossing thresholds",
        ),
        pytest.param({"numberOfNodes": -1}, "numberOfNodes: must not be negative", id="negative number of nodes"),
        pytest.param({"coolDownTime": -5}, "coolDownTime: must not be negative", id="negative time"),
        pytest.param({"resourceType": ""}, "resourceType: must name a resource", id="no resource"),
        pytest.param({"resourceType": "cpu", "ResourceType": "cpu"}, "is given twice", id="argument in two spellings"),
        pytest.param(
            {"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}},
            "cannot both be set",
            id="included and excluded namespaces",
        ),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "labelSelector",
            id="unreadable selector",
        ),
    ],
)
def test_wrong_defragmentation_arguments_are_refused_with_their_path(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(WireError) as caught:
        read_defragmentation(arguments)
    assert message in str(caught.value)


def test_all_wrong_arguments_are_reported_together() -> None:
    with pytest.raises(WireError) as caught:
        read_defragmentation({"numberOfNodes": -1, "coolDownTime": -1, "lowThresholds": {"cpu": -1}})
    assert len(caught.value.problems) == 3
