"""`restow move` against a live cluster."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from restow.cli import restow
from restow.model.kinds import NAMESPACE, POD, POD_MIGRATION_JOB
from restow.running import move_pod, one_shot_client
from tests.cli.test_apply_and_deschedule import invoke, scattered
from tests.sim.simulated_cluster import pod

BAD_INPUT = [
    (["default/nobody"], "pod default/nobody not found"),
    (["default/anchor", "--to", "node-9"], "node node-9 not found"),
    (["default/anchor", "--ttl", "soon"], "Invalid value for '--ttl'"),
    (["default/anchor", "--ttl=-5m"], "Invalid value for '--ttl': -5m is negative"),
    (["default/web"], "pod default/web not found; similar pods: default/web-"),
    (
        ["deployment/web"],
        "pod deployment/web not found; restow move takes one pod, not a deployment; similar pods: default/",
    ),
    (["deployment", "web"], "only pods are accepted"),
    (["deployment.apps", "web"], "only pods are accepted"),
    (["default/anchor", "default/web"], "name one pod: restow move pod NS/NAME"),
    (["pod", "default/anchor", "default/web"], "name one pod: restow move pod NS/NAME"),
    ([], "name one pod: restow move pod NS/NAME"),
    (["default/"], "name one pod: restow move pod NS/NAME"),
]


async def test_pod_moves_to_the_requested_node(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        web = next(each for each in (await client.list(POD)).items if each.metadata.name.startswith("web"))
        source = web.spec.node_name
        target = next(name for name in ("node-1", "node-2", "node-3") if name != source)
        done = await invoke(kubeconfig, "move", f"pod/{web.metadata.name}", "--to", target, "-o", "json")
        result = json.loads(done.stdout)
        assert (done.exit_code, result["phase"], result["from"], result["to"]) == (0, "Succeed", source, target), (
            done.output
        )
        assert (await client.get(POD, result["successor"], "default")).spec.node_name == target
        assert f"restow: {result['job']}: moving pod default/{web.metadata.name} to node {target}\n" in done.stderr


async def test_pod_that_cannot_be_moved_is_one_error_line_and_leaves_no_job(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        await client.create(POD, pod("bare", nodeName="node-2"))
        done = await invoke(kubeconfig, "move", "default/bare")
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        refused = done.stderr.splitlines()[-1]
        assert refused.startswith("Error: pod default/bare cannot be moved: no controller would create a successor")
        assert (await client.list(POD_MIGRATION_JOB)).items == []


async def test_bad_input_changes_nothing_and_exits_with_2(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        for words, message in BAD_INPUT:
            done = await invoke(kubeconfig, "move", *words)
            assert (done.exit_code, message in done.stderr) == (2, True), done.output
        assert (await client.list(POD_MIGRATION_JOB)).items == []


async def test_pod_slash_name_means_the_namespace_pod_if_it_has_such_a_pod(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        await client.create(NAMESPACE, {"metadata": {"name": "pod"}})
        for name, namespace in (("web", "pod"), ("api", "default")):
            document = pod(name, nodeName="node-2")
            document["metadata"]["namespace"] = namespace
            await client.create(POD, document)
        for name, namespace in (("web", "pod"), ("api", "default")):
            explained = await invoke(kubeconfig, "explain", f"pod/{name}", "-o", "json")
            moved = await invoke(kubeconfig, "move", f"pod/{name}", "-o", "json")
            assert json.loads(explained.stdout)["namespace"] == json.loads(moved.stdout)["namespace"] == namespace


def test_interrupted_move_prints_how_to_follow_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(client: object, rng: object, request: object, report: move_pod.ReportStep) -> None:
        report("move-web", "moving pod default/web")
        raise KeyboardInterrupt

    async def with_client(kubeconfig: object, use: Callable[[object], Awaitable[None]]) -> None:
        await use(None)

    monkeypatch.setattr(one_shot_client, "with_client", with_client)
    monkeypatch.setattr(move_pod, "move_pod", interrupted)
    done = CliRunner().invoke(restow, ["move", "default/web"])
    assert (
        "the move continues; kubectl get pmj move-web shows its state, kubectl delete pmj move-web stops it"
        in done.stderr
    )


async def test_pod_without_a_namespace_is_in_the_namespace_of_the_context(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        await client.create(NAMESPACE, {"metadata": {"name": "team"}})
        await client.create(POD, {**pod("bare", nodeName="node-2"), "metadata": {"name": "bare", "namespace": "team"}})
        kubeconfig.write_text(kubeconfig.read_text().replace("namespace: default", "namespace: team"))
        for words in (["move", "bare"], ["move", "pod/bare"]):
            done = await invoke(kubeconfig, *words)
            assert (done.exit_code, "pod team/bare cannot be moved" in done.stderr) == (1, True), done.output
        explained = await invoke(kubeconfig, "explain", "bare")
        assert (explained.exit_code, explained.stdout.startswith("team/bare")) == (0, True), explained.output
