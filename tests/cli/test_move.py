"""`restow move`: one pod, on a cluster that lives."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from restow.cli import restow
from restow.model.kinds import NAMESPACE, POD, POD_MIGRATION_JOB
from restow.running import living, one_move
from tests.cli.test_moving import invoke, scattered
from tests.sim.stage import pod

MISTAKES = [
    (["default/nobody"], "there is no pod default/nobody"),
    (["default/anchor", "--to", "node-9"], "there is no node node-9"),
    (["default/anchor", "--ttl", "soon"], "Invalid value for '--ttl'"),
    (["default/anchor", "--ttl=-5m"], "Invalid value for '--ttl': -5m is negative"),
    (["default/web"], "there is no pod default/web; there is default/web-"),
    (
        ["deployment/web"],
        "there is no pod deployment/web; restow move takes one pod, not a deployment; there is default/",
    ),
    (["deployment", "web"], "only pods can be named here"),
    (["deployment.apps", "web"], "only pods can be named here"),
    (["default/anchor", "default/web"], "name one pod: restow move pod NS/NAME"),
    (["pod", "default/anchor", "default/web"], "name one pod: restow move pod NS/NAME"),
    ([], "name a pod: restow move pod NS/NAME"),
    (["default/"], "name a pod: restow move pod NS/NAME"),
]


async def test_a_pod_is_moved_to_the_node_that_is_asked_for(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        web = next(one for one in (await client.list(POD)).items if one.metadata.name.startswith("web"))
        here = web.spec.node_name
        there = next(name for name in ("node-1", "node-2", "node-3") if name != here)
        done = await invoke(kubeconfig, "move", f"pod/{web.metadata.name}", "--to", there, "-o", "json")
        told = json.loads(done.stdout)
        assert (done.exit_code, told["phase"], told["from"], told["to"]) == (0, "Succeed", here, there), done.output
        assert (await client.get(POD, told["successor"], "default")).spec.node_name == there
        assert f"restow: {told['job']}: moves pod default/{web.metadata.name} to node {there}\n" in done.stderr


async def test_what_cannot_be_moved_is_told_in_one_line(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        await client.create(POD, pod("bare", nodeName="node-2"))
        done = await invoke(kubeconfig, "move", "default/bare")
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        refused = done.stderr.splitlines()[-1]
        assert refused.startswith("Error: pod default/bare cannot be moved: no controller would make a successor")
        assert (await client.list(POD_MIGRATION_JOB)).items == []


async def test_mistakes_change_nothing_and_exit_with_2(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        for words, told in MISTAKES:
            done = await invoke(kubeconfig, "move", *words)
            assert (done.exit_code, told in done.stderr) == (2, True), done.output
        assert (await client.list(POD_MIGRATION_JOB)).items == []


async def test_a_namespace_that_is_called_pod_is_one_to_whoever_explains_and_to_whoever_moves(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        await client.create(NAMESPACE, {"metadata": {"name": "pod"}})
        for name, where in (("web", "pod"), ("api", "default")):
            made = pod(name, nodeName="node-2")
            made["metadata"]["namespace"] = where
            await client.create(POD, made)
        for name, where in (("web", "pod"), ("api", "default")):
            explained = await invoke(kubeconfig, "explain", f"pod/{name}", "-o", "json")
            moved = await invoke(kubeconfig, "move", f"pod/{name}", "-o", "json")
            assert json.loads(explained.stdout)["namespace"] == json.loads(moved.stdout)["namespace"] == where


def test_who_stops_waiting_hears_how_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(client: object, rng: object, errand: object, tell: one_move.Tell) -> None:
        tell("move-web", "moves pod default/web")
        raise KeyboardInterrupt

    async def ask(kubeconfig: object, question: Callable[[object], Awaitable[None]]) -> None:
        await question(None)

    monkeypatch.setattr(living, "ask", ask)
    monkeypatch.setattr(one_move, "move", interrupted)
    done = CliRunner().invoke(restow, ["move", "default/web"])
    assert "the move goes on: kubectl get pmj move-web; kubectl delete pmj move-web ends it" in done.stderr


async def test_a_pod_without_a_namespace_is_one_of_the_context(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        await client.create(NAMESPACE, {"metadata": {"name": "team"}})
        await client.create(POD, {**pod("bare", nodeName="node-2"), "metadata": {"name": "bare", "namespace": "team"}})
        kubeconfig.write_text(kubeconfig.read_text().replace("namespace: default", "namespace: team"))
        for words in (["move", "bare"], ["move", "pod/bare"]):
            done = await invoke(kubeconfig, *words)
            assert (done.exit_code, "pod team/bare cannot be moved" in done.stderr) == (1, True), done.output
        asked = await invoke(kubeconfig, "explain", "bare")
        assert (asked.exit_code, asked.stdout.startswith("team/bare")) == (0, True), asked.output
