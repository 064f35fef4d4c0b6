"""Usage samples from the answers of Prometheus: their nodes and pods, and their times."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from restow.planning.plan import Move
from restow.planning.usage_samples import (
    PrometheusQueries,
    PrometheusSample,
    UsageSample,
    UsageSamples,
    samples_from_prometheus,
)

ASKED = PrometheusQueries()
GIB = 2**30


def prometheus_sample(node: str, value: float, at: float = 100.0, **labels: str) -> PrometheusSample:
    return PrometheusSample({"node": node, **labels}, at, value)


def nodes(
    cpu: Sequence[PrometheusSample], memory: Sequence[PrometheusSample], times: Sequence[PrometheusSample] = ()
) -> dict[str, UsageSample]:
    answers = {ASKED.nodes.cpu: cpu, ASKED.nodes.memory: memory, ASKED.nodes.time: times}
    return dict(samples_from_prometheus(ASKED, answers).nodes)


def test_prometheus_cores_and_bytes_are_read_in_base_units() -> None:
    assert nodes([prometheus_sample("a", 1.25)], [prometheus_sample("a", GIB)]) == {
        "a": UsageSample(100.0, {"cpu": 1250, "memory": GIB})
    }


@pytest.mark.parametrize(
    ("times", "at"),
    [
        pytest.param([prometheus_sample("a", 40.0)], 40.0, id="measured long before the query"),
        pytest.param([prometheus_sample("a", 140.0)], 100.0, id="time slightly in the future"),
        pytest.param([prometheus_sample("b", 40.0)], 100.0, id="without time"),
    ],
)
def test_sample_has_the_time_of_measurement(times: list[PrometheusSample], at: float) -> None:
    assert nodes([prometheus_sample("a", 1)], [prometheus_sample("a", 1)], times)["a"].measured_at == at


@pytest.mark.parametrize(
    "cpu",
    [
        pytest.param([], id="no cpu"),
        pytest.param([prometheus_sample("a", float("nan"))], id="not a number"),
        pytest.param([prometheus_sample("a", float("inf"))], id="without end"),
        pytest.param([prometheus_sample("a", -1.0)], id="negative value"),
        pytest.param([prometheus_sample("", 1.0)], id="bare"),
        pytest.param([prometheus_sample("a", 1.0, job="x"), prometheus_sample("a", 2.0, job="y")], id="named twice"),
    ],
)
def test_implausible_values_are_ignored(cpu: list[PrometheusSample]) -> None:
    assert nodes(cpu, [prometheus_sample("a", 1)]) == {}


def test_pod_samples_are_keyed_by_namespace_and_name() -> None:
    labels = {"namespace": "shop", "pod": "web-0"}
    answers = {query: [PrometheusSample(labels, 5.0, 2.0)] for query in (ASKED.pods.cpu, ASKED.pods.memory)}
    samples = samples_from_prometheus(ASKED, answers)
    assert samples.pods == {("shop", "web-0"): UsageSample(5.0, {"cpu": 2000, "memory": 2})}
    assert samples.unavailable_reason == "Prometheus reports no node"


def test_moves_take_the_usage_of_a_pod_along() -> None:
    samples = {"a": UsageSample(1.0, {"cpu": 900}), "b": UsageSample(2.0, {"cpu": 100})}
    before = UsageSamples(samples, {("default", "p"): UsageSample(1.0, {"cpu": 300})})
    move = Move(order=1, wave=1, namespace="default", pod="p", source="a", target="b")
    unknown = Move(order=2, wave=1, namespace="default", pod="q", source="a", target="b")
    after = before.after_moves([move, unknown])
    assert {name: one.amounts["cpu"] for name, one in after.nodes.items()} == {"a": 600, "b": 400}
