"""What the API server is shown to refuse by; how it does is in e2e."""

from __future__ import annotations

import pytest

from restow.queues.admission import CEILINGS, policy_documents, shown_ceilings
from restow.queues.ceilings import Ceilings
from tests.queues.fleets import vector

TOTALS = vector(cpu="80", memory="320Gi", **{"nvidia.com/gpu": "8"})


@pytest.mark.parametrize(
    ("ceilings", "totals", "shown"),
    [
        pytest.param(Ceilings(), {}, {"share_": "50"}, id="a cluster that nobody has looked at"),
        pytest.param(
            Ceilings(),
            TOTALS,
            {"share_": "50", "amount__cpu": "40", "amount__memory": "160Gi", "amount__nvidia.com_gpu": "4"},
            id="half of everything",
        ),
        pytest.param(
            Ceilings(cluster={"cpu": 60}, queue=55),
            vector(cpu="80", memory="320Gi"),
            {"share_": "50", "amount__cpu": "44", "amount__memory": "160Gi"},
            id="the lower of both, by dimension",
        ),
        pytest.param(
            Ceilings(queues={"ml": {"cpu": 20}}),
            vector(cpu="80"),
            {"share_": "50", "amount__cpu": "40", "share_ml": "20", "amount_ml_cpu": "16"},
            id="one of its own",
        ),
        pytest.param(
            Ceilings(cluster=0), vector(cpu="80"), {"share_": "0", "amount__cpu": "0"}, id="nobody may have anything"
        ),
        pytest.param(Ceilings(), {"cpu": 0}, {"share_": "50"}, id="what no node has is left to the condition"),
        pytest.param(Ceilings(), {f"example.org/{'x' * 253}": 9}, {"share_": "50"}, id="a name too long to be shown"),
    ],
)
def test_what_is_shown(ceilings: Ceilings, totals: dict[str, int], shown: dict[str, str]) -> None:
    assert shown_ceilings(ceilings, totals) == shown


def test_the_policy_of_ceilings_reads_the_config_map_of_its_name() -> None:
    bindings = [one["spec"] for one in policy_documents("home") if one["kind"].endswith("Binding")]
    reads = {"name": CEILINGS, "namespace": "home", "parameterNotFoundAction": "Allow"}
    assert [one.get("paramRef") for one in bindings] == [None, reads]
