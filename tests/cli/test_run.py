"""`restow run` in processes of its own, against a served API server."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.cli import restow
from restow.client.verbs import Client
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CUSTOM_RESOURCE_DEFINITION, LEASE, NODE, POD
from restow.running.components import COMPONENTS
from tests.cli.conftest import Run, Start
from tests.sim.simulated_cluster import node, pod

_PORT = re.compile(r"serving /healthz, /readyz and /metrics host='127.0.0.1' port=(\d+)")


class Restow:
    """A running process."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.lines: list[str] = []

    def port(self) -> int:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            self.lines.append(line)
            match = _PORT.search(line)
            if match:
                return int(match[1])
        raise AssertionError("".join(self.lines))

    def fetch(self, path: str, port: int) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[Client, Path]]:
    """An API server with three nodes and no components, and its kubeconfig."""
    memory = MemoryApi(SystemClock(), random.Random(1))
    client = Client(memory)
    for definition in custom_resource_definitions():
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    for number in range(3):
        await client.create(NODE, node(f"n{number}"))
    server = await serve(memory)
    try:
        yield client, write_kubeconfig(tmp_path / "kubeconfig", server.url)
    finally:
        await server.close()


async def eventually(holds: Callable[[], Awaitable[bool]], seconds: float = 40) -> None:
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.1)


async def create_and_wait_until_bound(client: Client, name: str) -> None:
    await client.create(POD, pod(name, schedulerName="restow"))

    async def is_bound() -> bool:
        return bool((await client.get(POD, name, "default")).spec.node_name)

    await eventually(is_bound)


async def holder(client: Client, component: str = "scheduler") -> str | None:
    leases = {lease.metadata.name: lease for lease in (await client.list(LEASE, "restow-system")).items}
    lease = leases.get(f"restow-{component}")
    return lease.spec.holder_identity if lease else None


async def test_process_schedules_reports_ready_and_releases_its_leases_on_sigterm(start: Start, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (client, kubeconfig):
        with start("run", "--kubeconfig", str(kubeconfig), "--port", "0") as child:
            process = Restow(child)
            port = await asyncio.to_thread(process.port)
            await create_and_wait_until_bound(client, "a")

            async def is_ready() -> bool:
                code, text = await asyncio.to_thread(process.fetch, "/readyz", port)
                return (code, text) == (200, "".join(f"[+] {name}: running\n" for name in COMPONENTS))

            await eventually(is_ready)
            assert await asyncio.to_thread(process.fetch, "/healthz", port) == (200, "ok\n")
            _, metrics = await asyncio.to_thread(process.fetch, "/metrics", port)
            assert 'scheduler_schedule_attempts_total{profile="restow",result="scheduled"} 1.0' in metrics
            assert 'leader_election_master_status{name="restow-scheduler"} 1.0' in metrics
            child.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(child.wait, 20) == 0
        assert await holder(client) is None, "the lease is released"


async def test_second_process_takes_over_from_a_frozen_one_and_back(start: Start, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (client, kubeconfig):
        arguments = ("run", "--kubeconfig", str(kubeconfig), "--port", "0", "--lease-duration", "2s")
        with start(*arguments) as first:
            port = await asyncio.to_thread(Restow(first).port)
            await create_and_wait_until_bound(client, "a")
            leader = await holder(client)
            with start(*arguments) as second:
                await asyncio.to_thread(Restow(second).port)
                first.send_signal(signal.SIGSTOP)

                async def is_taken() -> bool:
                    return await holder(client) not in (leader, None)

                await eventually(is_taken)
                await create_and_wait_until_bound(client, "b")
                first.send_signal(signal.SIGCONT)

                async def is_standby() -> bool:
                    code, text = await asyncio.to_thread(Restow(first).fetch, "/readyz", port)
                    return code == 200 and text.startswith("[+] scheduler: standby, the lease is held by ")

                await eventually(is_standby)
                second.kill()
                await eventually(lambda: _is(client, leader))
                await create_and_wait_until_bound(client, "c")


async def _is(client: Client, identity: str | None) -> bool:
    return await holder(client) == identity


def test_embedded_brings_its_own_cluster(start: Start) -> None:
    with start("run", "--embedded", "--port", "0", "--components", "scheduler") as child:
        assert child.stdout is not None
        assert Path(child.stdout.readline().rstrip("\n")).name == "kubeconfig"
        Restow(child).port()
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--kubeconfig", "/nowhere"], "kubeconfig /nowhere: No such file or directory"),
        (["--kubeconfig", "x", "--embedded"], "--kubeconfig and --embedded cannot be used together"),
        (["--components", "scheduler,cook"], "unknown component 'cook'; known are scheduler, "),
        (["--embedded", "--lease-duration", "1s"], "--lease-duration: must be at least 2s, is 1s"),
    ],
    ids=["no such file", "two clusters", "no such component", "a lease too short"],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], line: str) -> None:
    done = CliRunner().invoke(restow, ["run", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert line in done.stderr


def test_invalid_configuration_is_reported_before_anything_starts(spawn: Run, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("migration: {evictBurst: 0, dry: true}\n")
    done = spawn("run", "--embedded", "--config", str(tmp_path / "c.yaml"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(
        "c.yaml: migration.dry: unknown field; migration.evictBurst: must be at least 1, is 0\n"
    )


def test_port_in_use_is_one_line_and_exit_code_1(spawn: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = spawn("run", "--embedded", "--port", str(port))
    assert done.returncode == 1
    message = f"cannot listen on 127.0.0.1:{port}: Address already in use; use --port to choose another"
    assert done.stderr.endswith(f"restow: {message}\n")
