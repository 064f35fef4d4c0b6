"""Use as Prometheus tells it, end to end: over HTTP on loopback, through a cycle, to moves or to one warning."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from restow.adapters.prometheus import PrometheusServer
from restow.client.verbs import Client
from restow.control.descheduler import DeschedulerMetrics
from restow.control.descheduler.usage_metrics import UsageMeter
from restow.planning.arguments import read_load_aware
from restow.planning.descheduling.policy_section import read_policy
from restow.planning.descheduling.registry import descheduler_plugins
from restow.planning.plan import Plan
from restow.planning.strategies import make_plan
from restow.planning.usage_samples import UsageSamples
from restow.ports import Request, Response
from tests.control.descheduler.descheduler_fixture import MeteringApi, descheduler, scattered_cluster
from tests.control.scheduler_cluster import events_with_reason
from tests.kubernetes.server import StillClock, serving
from tests.planning.clusters import NOW, app, move_triples, node_of_ten, plan_request, snapshot_of
from tests.prometheus.server import Line, Scripted
from tests.prometheus.server import cluster as measured_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, running_component


class UnreachableApi:
    """An Api that must not be asked."""

    async def call(self, request: Request) -> Response:
        raise AssertionError(request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        raise AssertionError(request)


LIMITS = {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 70}}
ARGUMENTS = {**LIMITS, "metricsUtilization": {"source": "Prometheus"}}
COOL = {
    "profiles": [
        {
            "name": "cool",
            "interval": "60s",
            "plugins": {"balance": {"enabled": ["LoadAware"]}},
            "pluginConfig": [{"name": "LoadAware", "args": LIMITS}],
        }
    ]
}
NODES = {"a": ("9", "1e9"), "b": ("1", "1e9"), "c": ("2", "1e9")}
PODS = {"big": ("3", "1e6"), "small": ("1", "1e6")}


def section(url: str, **provider: Any) -> dict[str, Any]:
    named = {"source": "Prometheus", "prometheus": {"url": url, **provider}}
    profile = {
        "name": "cool",
        "plugins": {"balance": {"enabled": ["LoadAware"]}},
        "pluginConfig": [{"name": "LoadAware", "args": ARGUMENTS}],
    }
    return {"metricsProviders": [named], "profiles": [profile]}


async def measure(url: str, **provider: Any) -> UsageSamples:
    policy = read_policy(section(url, **provider), descheduler_plugins())
    assert policy.prometheus is not None
    metering = policy.usage_source_for(policy.profile_called("cool"))
    assert metering is not None
    meter = UsageMeter(Client(UnreachableApi()), StillClock(NOW), PrometheusServer(policy.prometheus))
    found, _ = await meter.measure(metering)
    return found


def planned(use: UsageSamples) -> Plan:
    snapshot = snapshot_of([node_of_ten(name) for name in "abc"], [app("big", on="a"), app("small", on="a")])
    return make_plan("load-aware", snapshot, plan_request(snapshot, ARGUMENTS, measured_usage=use))


def vectors(pods: Mapping[str, tuple[str, str]], *, age: float = 30) -> dict[str, list[Line]]:
    return measured_cluster(NODES, pods, NOW, measured_at=NOW - age)


async def test_pods_move_by_usage_from_prometheus(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    server = Scripted(vectors(PODS), token="secret")
    async with serving(server) as port:
        use = await measure(f"http://127.0.0.1:{port}/", authToken={"file": str(tmp_path / "token")})
    assert move_triples(planned(use)) == [("big", "a", "b")]
    assert len(server.asked) == 6


async def test_pods_without_samples_are_left_alone() -> None:
    async with serving(Scripted(vectors({"small": ("3", "1e6")}))) as port:
        use = await measure(f"http://127.0.0.1:{port}")
    assert move_triples(planned(use)) == [("small", "a", "b")]


async def test_stale_usage_samples_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Scripted(vectors(PODS, age=400))) as port:
        use = await measure(f"http://127.0.0.1:{port}")
    assert not planned(use).moves
    [told] = [vars(record)["problem"] for record in caplog.records if record.levelno == logging.WARNING]
    assert told == "3 nodes and 2 pods were measured more than 300s ago; these samples are ignored"


@pytest.mark.parametrize(
    ("trouble", "result", "told"),
    [
        pytest.param({"age": 400.0}, "stale", "5 nodes and 5 pods were measured more than 300s ago", id="stale"),
        pytest.param(
            {"silent": True}, "none", "the server is currently unable to answer", id="metrics.k8s.io does not answer"
        ),
    ],
)
@on_virtual_time
async def test_events_say_that_usage_is_not_measured_and_that_it_is_again(
    trouble: dict[str, Any], result: str, told: str
) -> None:
    registry = CollectorRegistry()
    async with scattered_cluster() as it:
        api = MeteringApi(it)
        for name, value in trouble.items():
            setattr(api, name, value)
        controller = descheduler(it, COOL, api=api, metrics=DeschedulerMetrics(registry))
        async with running_component(controller):
            await pass_time(100)
            [(about, message)] = await events_with_reason(it, "UseNotMeasured", "ConfigMap")
            assert about == "restow" and message.startswith("KubernetesMetrics: ") and told in message, message
            api.age, api.silent = 0.0, False
            await pass_time(70)
            assert len(await events_with_reason(it, "UseMeasured")) == 1
        counts = {
            one: registry.get_sample_value(
                "restow_descheduler_use_readings_total", {"source": "KubernetesMetrics", "result": one}
            )
            for one in (result, "fresh")
        }
        assert counts == {result: 2.0, "fresh": 1.0}


@on_virtual_time
async def test_dry_run_records_no_usage_event() -> None:
    async with scattered_cluster() as it:
        api = MeteringApi(it)
        api.silent = True
        async with running_component(descheduler(it, {**COOL, "dryRun": True}, api=api)):
            await pass_time(100)
            assert await events_with_reason(it, "UseNotMeasured") == []


async def test_missing_prometheus_is_logged_once_and_nothing_moves(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Scripted({})) as port:
        pass
    policy = read_policy(section(f"http://127.0.0.1:{port}"), descheduler_plugins())
    assert policy.prometheus is not None
    meter = UsageMeter(Client(UnreachableApi()), StillClock(NOW), PrometheusServer(policy.prometheus))
    for _ in range(3):
        use, _ = await meter.measure(read_load_aware(ARGUMENTS).usage_source)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    found = planned(use)
    assert not found.moves
    assert f"measured usage is not available: Prometheus at http://127.0.0.1:{port} cannot" in found.refusals[0].reason
