"""The sentence that says why: golden forms."""

from __future__ import annotations

import numpy as np
import pytest

from restow.scheduling.explain import count_reasons, fit_error_message
from restow.scheduling.framework import Refusal


@pytest.mark.parametrize(
    ("nodes", "reasons", "extra", "expected"),
    [
        pytest.param(
            12,
            {"node(s) had untolerated taint {dedicated: gpu}": 9, "Insufficient cpu": 3},
            {},
            "0/12 nodes are available: 3 Insufficient cpu, 9 node(s) had untolerated taint {dedicated: gpu}.",
            id="two plugins",
        ),
        pytest.param(
            10,
            {"Insufficient memory": 10, "Insufficient cpu": 2},
            {},
            "0/10 nodes are available: 10 Insufficient memory, 2 Insufficient cpu.",
            id="sorted as text, so ten comes before two",
        ),
        pytest.param(0, {}, {}, "0/0 nodes are available: no nodes available to schedule pods.", id="no nodes at all"),
        pytest.param(
            3,
            {"ignored": 3},
            {"before": 'persistentvolumeclaim "data" not found'},
            '0/3 nodes are available: persistentvolumeclaim "data" not found.',
            id="stopped before any node was asked",
        ),
        pytest.param(
            2,
            {"Insufficient cpu": 2},
            {"after": "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."},
            "0/2 nodes are available: 2 Insufficient cpu. "
            "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
            id="something was tried afterwards",
        ),
    ],
)
def test_fit_error_message_counts_and_sorts_the_reasons(
    nodes: int, reasons: dict[str, int], extra: dict[str, str], expected: str
) -> None:
    assert fit_error_message(nodes, reasons, **extra) == expected


def test_node_counts_for_each_reason_of_the_plugin_that_refused_it() -> None:
    cpu, memory = np.array([True, True, False]), np.array([False, True, False])
    no_row = np.zeros(3, np.bool_)
    refused = {"Fit": [Refusal("Insufficient cpu", cpu), Refusal("Insufficient memory", memory), Refusal("x", no_row)]}
    assert count_reasons(refused) == {"Insufficient cpu": 2, "Insufficient memory": 1}
