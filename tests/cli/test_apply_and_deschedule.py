"""`restow deschedule` and `restow apply` against a live cluster."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.cli import restow
from restow.client.leader_election import LeaderElection
from restow.client.verbs import Client
from restow.control.descheduler import ClusterChanged
from restow.control.descheduler.cycle_lease import CYCLE_LEASE_NAME
from restow.defaults import HOME
from restow.model.kinds import DEPLOYMENT, POD, POD_MIGRATION_JOB
from restow.planning.replay import PlanDefect
from restow.running import embedded_cluster, one_shot_run
from tests.sim.simulated_cluster import is_pod_ready, pod, template, workload

MANIFEST = Path(__file__).parents[2] / "examples" / "reservation.yaml"


async def invoke(kubeconfig: Path, *arguments: str) -> Result:
    command, *rest = arguments
    return await asyncio.to_thread(CliRunner().invoke, restow, [command, "--kubeconfig", str(kubeconfig), *rest])


@asynccontextmanager
async def scattered(tmp_path: Path) -> AsyncIterator[tuple[Client, Path]]:
    """An embedded cluster, one node nearly full and a pod on each of two others."""
    async with embedded_cluster.embedded_cluster(nodes=3, rng=random.Random(1)) as cluster:
        server = await serve(cluster.api)
        client = cluster.client
        try:
            await client.create(POD, pod("anchor", "5900m", nodeName="node-1"))
            await client.create(DEPLOYMENT, workload("web", 2, pods=template("400m", app="web")))
            await until(client, lambda pods: len(pods) == 3 and all(map(is_pod_ready, pods)))
            yield client, write_kubeconfig(tmp_path / "kubeconfig", server.url)
        finally:
            await server.close()


async def until(client: Client, settled: Any) -> None:
    async with asyncio.timeout(60):
        while not settled((await client.list(POD, "default")).items):
            await asyncio.sleep(0.1)


async def test_dry_run_plan_can_be_applied(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        dry_run = await invoke(kubeconfig, "deschedule", "--now", "--dry-run", "-o", "json")
        plan = json.loads(dry_run.stdout)
        assert [move["to"] for move in plan["moves"]] == ["node-1", "node-1"], dry_run.output
        file = tmp_path / "plan.json"
        file.write_text(dry_run.stdout)
        done = await invoke(kubeconfig, "apply", str(file))
        assert (done.exit_code, "2 of 2 moves done" in done.stdout) == (0, True), done.output
        assert "Succeed" in done.stderr
        assert {pod.spec.node_name for pod in (await client.list(POD, "default")).items} == {"node-1"}
        report = json.loads((await invoke(kubeconfig, "apply", str(file), "-o", "json")).stdout)
        assert [(move["to"], move["phase"]) for move in report["moves"]] == [("node-1", "Succeed")] * 2
        again = await invoke(kubeconfig, "deschedule", "--now")
        assert (again.exit_code, "no moves" in again.stdout) == (0, True), again.output


async def test_dry_run_in_the_configuration_creates_no_jobs_and_says_so(tmp_path: Path) -> None:
    config = tmp_path / "restow.yaml"
    config.write_text("scheduler: {schedulerNames: [default-scheduler]}\ndescheduler: {dryRun: true}")
    async with scattered(tmp_path) as (client, kubeconfig):
        done = await invoke(kubeconfig, "deschedule", "--now", "--config", str(config))
        assert (done.exit_code, "2 moves" in done.stdout) == (0, True), done.output
        assert done.stderr == "restow: no jobs created: descheduler.dryRun is set in the configuration\n"
        assert (await client.list(POD_MIGRATION_JOB)).items == []


@pytest.mark.parametrize("command", [["deschedule", "--now"], ["apply", "{plan}"]], ids=" ".join)
async def test_missing_definitions_are_an_error_with_the_install_command(tmp_path: Path, command: list[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"strategy": "optimal"}')
    server = await serve(MemoryApi(SystemClock(), random.Random(1)))
    try:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        done = await invoke(kubeconfig, *(word.format(plan=plan) for word in command))
    finally:
        await server.close()
    assert (done.exit_code, done.stdout) == (1, "")
    name = "podmigrationjobs.scheduling.koordinator.sh"
    assert f"{name} is not installed in the cluster; install Restow with: restow install | kubectl" in done.stderr


async def test_changed_cluster_repairs_the_plan_or_fails_with_strict(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        plan = tmp_path / "plan.json"
        plan.write_text((await invoke(kubeconfig, "deschedule", "--now", "--dry-run", "-o", "json")).stdout)
        gone = json.loads(plan.read_text())["moves"][0]["pod"]
        await client.delete(POD, gone, "default")
        await until(
            client, lambda pods: gone not in {each.metadata.name for each in pods} and all(map(is_pod_ready, pods))
        )
        strict = await invoke(kubeconfig, "apply", "--strict", str(plan))
        assert (strict.exit_code, "wave 1 does not begin: move 1" in strict.output) == (1, True), strict.output
        done = await invoke(kubeconfig, "apply", str(plan))
        assert (done.exit_code, "1 of 2 moves done, 1 skipped" in done.stdout) == (0, True), done.output
        assert f"repaired: move 1 of default/{gone} is left out: there is no such pod on any node" in done.stderr


async def test_profile_runs_once(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        done = await invoke(kubeconfig, "deschedule", "--now", "--profile", "default")
        assert done.exit_code == 0 and "2 jobs created for plan default-" in done.stderr, done.output
        await until(client, lambda pods: {pod.spec.node_name for pod in pods} == {"node-1"} and len(pods) == 3)


async def test_refused_run_is_one_error_line(tmp_path: Path) -> None:
    async with scattered(tmp_path) as (_, kubeconfig):
        plan = tmp_path / "plan.json"
        plan.write_text((await invoke(kubeconfig, "deschedule", "--now", "--dry-run", "-o", "json")).stdout)
        unknown = await invoke(kubeconfig, "deschedule", "--now", "--profile", "x")
        assert (unknown.exit_code, "no profile is called 'x'; there are default" in unknown.output) == (2, True)
        await invoke(kubeconfig, "pause", "--reason", "lunch")
        stopped = await invoke(kubeconfig, "deschedule", "--now")
        assert (stopped.exit_code, "evictions are stopped: lunch" in stopped.output) == (1, True)
        moved = plan.read_text().replace('"node-1"', '"node-9"')
        plan.write_text(moved)
        changed = await invoke(kubeconfig, "apply", str(plan))
        assert changed.exit_code == 1
        assert "wave 1 does not begin: move 1 of default/web-" in changed.output, changed.output


@pytest.mark.parametrize("command", [["deschedule", "--now"], ["apply", "{plan}"]], ids=" ".join)
async def test_concurrent_run_is_refused_and_names_the_holder(tmp_path: Path, command: list[str]) -> None:
    async with scattered(tmp_path) as (client, kubeconfig):
        plan = tmp_path / "plan.json"
        plan.write_text((await invoke(kubeconfig, "deschedule", "--now", "--dry-run", "-o", "json")).stdout)
        other = LeaderElection(
            client, namespace=HOME, name=CYCLE_LEASE_NAME, identity="ann", clock=SystemClock(), rng=random.Random(1)
        )
        keeping = asyncio.create_task(other.run(asyncio.Event().wait))
        await asyncio.sleep(0.1)
        done = await invoke(kubeconfig, *(word.format(plan=plan) for word in command))
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        assert "a run is under way: ann has the Lease restow-system/restow-cycle" in done.stderr
        dry = await invoke(kubeconfig, "deschedule", "--now", "--dry-run")
        assert (dry.exit_code, "2 moves" in dry.stdout) == (0, True), dry.output
        keeping.cancel()
        assert (await client.list(POD_MIGRATION_JOB)).items == []


def test_all_defects_of_a_changed_plan_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"strategy": "by-hand"}')
    defects = tuple(PlanDefect(order, 1, "default", f"p{order}", "is gone") for order in range(1, 6))

    def changed(*arguments: object) -> None:
        raise ClusterChanged(1, defects)

    monkeypatch.setattr(one_shot_run, "open_session", changed)
    done = CliRunner().invoke(restow, ["apply", str(plan)])
    assert done.exit_code == 1
    assert [line for line in done.stderr.splitlines() if line.startswith("restow: ")] == [
        "restow: move 4 of default/p4 is gone",
        "restow: move 5 of default/p5 is gone",
    ]
    assert "move 3 of default/p3 is gone; and 2 more" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["deschedule"], "--now is required"),
        (["deschedule", "--now", "--kubeconfig", "/nowhere"], "/nowhere"),
        (["apply", "/nowhere"], "does not exist"),
        (
            ["apply", str(MANIFEST)],
            f"{MANIFEST} contains Reservation, not a plan; create one with restow plan --save F",
        ),
    ],
    ids=["no trigger", "no kubeconfig", "no plan", "a manifest"],
)
def test_bad_input_exits_with_2(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(restow, arguments)
    assert (done.exit_code, message in done.output) == (2, True), done.output


def test_interrupted_apply_prints_how_to_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"strategy": "by-hand"}')

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(one_shot_run, "open_session", interrupted)
    done = CliRunner().invoke(restow, ["apply", str(plan)])
    assert done.exit_code == 1, "which main() turns into 130"
    assert f"started moves continue; run restow apply {plan} again for the rest" in done.stderr
