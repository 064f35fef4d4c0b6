"""The `queues` section of the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model.wire import WireError
from restow.queues.arguments import QueueArguments, read_queue_arguments
from restow.queues.guarantee_ceilings import GuaranteeCeilings


def test_empty_section_allows_half_of_the_cluster_to_be_guaranteed() -> None:
    assert read_queue_arguments({}) == QueueArguments(5.0, GuaranteeCeilings(50, 50, {}))


def test_ceilings_are_read_for_all_for_each_and_for_single_queues() -> None:
    section = {
        "relockPeriod": "10s",
        "maxGuaranteed": {"cpu": 60},
        "maxGuaranteedPerQueue": 30,
        "maxGuaranteedOf": {"ml": {"cpu": 40}, "web": 5},
    }
    expected = QueueArguments(10.0, GuaranteeCeilings({"cpu": 60}, 30, {"ml": {"cpu": 40}, "web": 5}))
    assert read_queue_arguments(section) == expected


@pytest.mark.parametrize(
    ("section", "told"),
    [
        pytest.param({"relockPeriod": "10ms"}, "relockPeriod: 10ms is shorter than 100ms", id="too often"),
        pytest.param({"maxGuaranteed": 101}, "maxGuaranteed: 101 is not between 0 and 100", id="more than everything"),
        pytest.param(
            {"maxGuaranteedOf": {"ml": {"cpu": -1}}, "maxGuaranteedPerQueue": {"cpu": 200}},
            "maxGuaranteedPerQueue.cpu: 200 is not between 0 and 100; "
            "maxGuaranteedOf.ml.cpu: -1 is not between 0 and 100",
            id="all mistakes at once",
        ),
        pytest.param({"ceiling": 1}, "ceiling", id="a field that does not exist"),
        pytest.param(
            {"maxGuaranteedOf": {"My Team": 5, "a" * 200: 5}},
            "'My Team' is not the name of a queue: must be lower case letters",
            id="what is no name of a queue",
        ),
        pytest.param(
            {"maxGuaranteedOf": {"a" * 200: 5}}, "must be no longer than 180 characters", id="a name that is too long"
        ),
    ],
)
def test_queue_section_problems_have_their_paths(section: dict[str, Any], told: str) -> None:
    with pytest.raises(WireError) as error:
        read_queue_arguments(section)
    assert told in str(error.value).replace("\n", "; ")
