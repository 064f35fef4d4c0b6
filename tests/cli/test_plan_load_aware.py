"""`restow plan --strategy load-aware`: where measured usage comes from, and the message if there is none."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.client.verbs import Client
from restow.model.kinds import NODE, POD, REPLICA_SET, Kind
from restow.model.times import format_time
from tests.cli.live_cluster import invoke_restow, served_cluster
from tests.cli.snapshot_documents import OWNER, node, running_replica
from tests.kubernetes.server import serving
from tests.prometheus.server import Scripted
from tests.prometheus.server import cluster as measured_cluster

NODES, PODS = {"n1": ("9", "1e9"), "n2": ("1", "1e9")}, {"big": ("4", "1e6")}


def documents(owner: str = "web") -> list[dict[str, Any]]:
    """A pod on n1, of an owner with this UID; n2 could take it."""
    pod = running_replica("big", "1", "n1")
    pod["metadata"] |= {"namespace": "default", "ownerReferences": [{**OWNER, "uid": owner}]}
    return [node("n1", "10"), node("n2", "10"), pod]


async def build(client: Client) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    replica_set = await client.create(REPLICA_SET, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    for document in documents(replica_set.metadata.uid):
        kind: Kind[Any] = POD if document["kind"] == "Pod" else NODE
        await client.create(kind, document)


def configuration(path: Path, port: int) -> Path:
    args = {
        "thresholds": {"cpu": 40},
        "targetThresholds": {"cpu": 70},
        "metricsUtilization": {"source": "Prometheus"},
    }
    profile = {
        "name": "cool",
        "plugins": {"balance": {"enabled": ["LoadAware"]}},
        "pluginConfig": [{"name": "LoadAware", "args": args}],
    }
    provider = {"source": "Prometheus", "prometheus": {"url": f"http://127.0.0.1:{port}"}}
    written = path / "restow.yaml"
    written.write_text(yaml.safe_dump({"descheduler": {"metricsProviders": [provider], "profiles": [profile]}}))
    return written


def measuring() -> Scripted:
    return Scripted(measured_cluster(NODES, PODS, time.time(), measured_at=time.time() - 30))


async def test_prometheus_is_queried_for_a_live_cluster(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as (api, kubeconfig), serving(measuring()) as port:
        await build(Client(api))
        written = configuration(tmp_path, port)
        command = ("plan", "--strategy", "load-aware", "--kubeconfig", kubeconfig, "--config", written, "-o", "json")
        done = await invoke_restow(*command)
        assert [(move["pod"], move["from"], move["to"]) for move in json.loads(done.stdout)["moves"]] == [
            ("big", "n1", "n2")
        ], done.output


async def test_failing_prometheus_is_a_refusal_in_the_plan(tmp_path: Path) -> None:
    async with serving(measuring()) as port:
        pass
    async with served_cluster(tmp_path) as (_, kubeconfig):
        written = configuration(tmp_path, port)
        done = await invoke_restow(
            "plan", "--strategy", "load-aware", "--kubeconfig", kubeconfig, "--config", written, "-o", "json"
        )
    refusals = [refusal["reason"] for refusal in json.loads(done.stdout)["refusals"]]
    assert (
        done.exit_code == 0 and f"measured usage is not available: Prometheus at http://127.0.0.1:{port}" in refusals[0]
    )


NODE_METRICS = [
    {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": format_time(time.time()),
        "usage": {"cpu": cores},
    }
    for name, (cores, _) in NODES.items()
]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        pytest.param(
            [],
            "the snapshot has no NodeMetrics, and Prometheus is queried for live clusters only",
            id="without metrics",
        ),
        pytest.param(NODE_METRICS, "usage comes from the NodeMetrics in the snapshot", id="with metrics"),
    ],
)
async def test_prometheus_is_not_queried_for_a_snapshot(
    tmp_path: Path, more: list[dict[str, Any]], message: str
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*documents(), *more]}))
    server = measuring()
    async with serving(server) as port:
        written = configuration(tmp_path, port)
        done = await invoke_restow("plan", "--strategy", "load-aware", "--snapshot", path, "--config", written)
    assert (done.exit_code, server.asked) == (0, []) and message in " ".join(done.output.split()), done.output
    assert "busy nodes, by measured usage" in done.output
