"""`restow snapshot`, and `restow plan` on a cluster that lives."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.cli import restow
from restow.client.verbs import Client
from restow.commands import inputs
from restow.model.crds import custom_resource_definitions
from restow.model.inventory import read_inventory
from restow.model.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, NODE, POD, QUEUE, Kind
from restow.ports import Api, ApiError, Request, Response
from restow.sim.scenarios import generate_documents, load_documents
from restow.snapshots import capture
from tests.cli.live_cluster import SCENARIO, invoke_restow, served_cluster
from tests.kubernetes.server import Script, say, serving


def ignored(*_: Any) -> None:
    """Nobody is told."""


async def test_snapshot_file_is_read_by_the_other_commands(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as (api, kubeconfig):
        await load_documents(Client(api), generate_documents(SCENARIO))
        done = await invoke_restow("snapshot", "--kubeconfig", kubeconfig)
        assert (done.exit_code, done.stderr) == (0, "")
        there = {one.metadata.name: one for one in (await Client(api).list(POD)).items}
    inventory = read_inventory(done.stdout.encode(), "snapshot")
    assert {one.metadata.name: one for one in inventory.of(POD)} == there
    assert len(inventory.of(NODE)) == 6 and not inventory.left_out
    assert "managedFields" not in done.stdout


async def test_snapshot_contains_objects_of_optional_kinds(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as (api, kubeconfig):
        client = Client(api)
        for definition in custom_resource_definitions():
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        await client.create(QUEUE, {"metadata": {"name": "gold"}, "spec": {"weight": 3}})
        done = await invoke_restow("snapshot", "--kubeconfig", kubeconfig)
    assert "gold" in [one["metadata"]["name"] for one in json.loads(done.stdout)["items"] if one["kind"] == "Queue"]


async def test_snapshot_of_an_empty_cluster_is_an_empty_list(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as (_, kubeconfig):
        done = await invoke_restow("snapshot", "--anonymise", "--kubeconfig", kubeconfig)
    kinds = {one["kind"] for one in json.loads(done.stdout)["items"]}
    assert kinds <= {"Namespace", "PriorityClass"}


async def test_plan_of_a_live_cluster_has_all_that_apply_needs(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as (api, kubeconfig):
        await load_documents(Client(api), generate_documents(SCENARIO))
        saved = tmp_path / "plan.json"
        done = await invoke_restow("plan", "--kubeconfig", kubeconfig, "--work-limit", "500", "--save", saved)
        pods = {one.metadata.name: one.metadata for one in (await Client(api).list(POD)).items}
    told = f"restow: plan saved to {saved}; to carry it out: restow apply {saved}\n"
    assert (done.exit_code, done.stderr) == (0, told)
    plan = json.loads(saved.read_text())
    assert plan["moves"]
    for move in plan["moves"]:
        assert move["uid"] == pods[move["pod"]].uid
        assert plan["versions"][f"Pod {move['namespace']}/{move['pod']}"] == pods[move["pod"]].resource_version


async def test_plan_of_a_live_cluster_uses_the_installed_configuration(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as (api, kubeconfig):
        await load_documents(Client(api), generate_documents(SCENARIO))
        await Client(api).create(NAMESPACE, {"metadata": {"name": "restow-system"}})
        written = {"restow.yaml": "scheduler: {schedulerNames: [another]}"}
        installed = {"metadata": {"name": "restow", "namespace": "restow-system"}, "data": written}
        await Client(api).create(CONFIG_MAP, installed)
        done = await invoke_restow("plan", "--kubeconfig", kubeconfig, "--work-limit", "500")
        kept = tmp_path / "cluster.json"
        kept.write_text((await invoke_restow("snapshot", "--kubeconfig", kubeconfig)).stdout)
        from_file = await invoke_restow("plan", "--snapshot", kept, "--work-limit", "500")
    assert done.stdout.startswith("optimal: no moves")
    assert "pods belong to other schedulers (restow): " in " ".join(done.stdout.split())
    assert (from_file.stdout, from_file.stderr) == (done.stdout, "")


async def test_query_commands_accept_a_live_cluster(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as (api, kubeconfig):
        await load_documents(Client(api), generate_documents(SCENARIO))
        here = ("--kubeconfig", kubeconfig, "-o", "json")
        [pod, *_] = [one.metadata for one in (await Client(api).list(POD)).items]
        explained = await invoke_restow("explain", *here, f"{pod.namespace}/{pod.name}")
        scheduled = await invoke_restow("schedule", *here)
        plan = tmp_path / "plan.json"
        await invoke_restow("plan", *here, "--work-limit", "500", "--save", plan)
        replayed = await invoke_restow("replay", *here, "--plan", plan)
    assert json.loads(explained.stdout)["pod"] == pod.name
    assert "placements" in json.loads(scheduled.stdout)
    assert json.loads(replayed.stdout)["valid"]


async def test_anonymised_snapshot_contains_no_names(tmp_path: Path) -> None:
    async with served_cluster(tmp_path) as (api, kubeconfig):
        await load_documents(Client(api), generate_documents(SCENARIO))
        done = await invoke_restow("snapshot", "--anonymise", "--kubeconfig", kubeconfig)
        names = [one.metadata.name for one in (await Client(api).list(POD)).items]
    assert done.exit_code == 0
    assert len(read_inventory(done.stdout.encode(), "snapshot").of(POD)) == len(names)
    assert not [name for name in names if name in done.stdout]


# --- what a server may say --------------------------------------------------------------------------------------------


class Saying:
    """A cluster that answers some lists with an error: by resource, and how often it was asked before."""

    def __init__(self, api: Api, errors: dict[tuple[str, int], ApiError]) -> None:
        self._api = api
        self._errors = errors
        self._asked: dict[str, int] = {}

    async def call(self, request: Request) -> Response:
        name = ".".join(filter(None, (request.resource.plural, request.resource.group)))
        before = self._asked.get(name, 0)
        self._asked[name] = before + 1
        if error := self._errors.get((name, before)):
            raise error
        return await self._api.call(request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


def error(code: int, reason: str) -> ApiError:
    return ApiError.of(ApiError.because(code, reason, f"{reason}, said the server").status)


async def small(errors: dict[tuple[str, int], ApiError]) -> Client:
    api = MemoryApi(SystemClock(), random.Random(1))
    await load_documents(Client(api), generate_documents(SCENARIO))
    return Client(Saying(api, errors))


@pytest.mark.parametrize(
    ("resource", "code", "reason"),
    [
        pytest.param("nodes", 403, "Forbidden", id="forbidden"),
        pytest.param("nodes", 404, "NotFound", id="not there, which nodes always are"),
        pytest.param("csinodes.storage.k8s.io", 503, "ServiceUnavailable", id="unavailable"),
    ],
)
async def test_snapshot_names_the_kind_that_cannot_be_listed(resource: str, code: int, reason: str) -> None:
    client = await small({(resource, 0): error(code, reason)})
    with pytest.raises(capture.CannotList, match=f"^cannot list {resource}: {reason}, said the server$"):
        await capture.capture_inventory(client, ignored, ignored)


@pytest.mark.parametrize(
    ("resource", "code", "reason"),
    [
        pytest.param(
            "podunavailablebudgets.policy.kruise.io", 403, "Forbidden", id="we may not look whether it exists"
        ),
        pytest.param("nodes.metrics.k8s.io", 503, "ServiceUnavailable", id="metrics.k8s.io is not available"),
    ],
)
async def test_snapshot_warns_of_an_optional_kind_that_cannot_be_listed(resource: str, code: int, reason: str) -> None:
    client = await small({(resource, 0): error(code, reason)})
    told: list[str] = []
    found = await capture.capture_inventory(client, ignored, told.append)
    assert found.of(POD)
    assert told == [f"cannot list {resource}, assuming there are none: {reason}, said the server"]


async def test_snapshot_list_is_complete_although_its_continue_token_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    client = await small({("pods", 1): error(410, "Expired")})
    whole = client.pages

    def in_small_pages(kind: Kind[Any], *others: Any, **options: Any) -> Any:
        return whole(kind, *others, **{"limit": 10, **options})

    monkeypatch.setattr(client, "pages", in_small_pages)
    names = [
        one["metadata"]["name"]
        async for one in capture.capture_documents(client, ignored, ignored)
        if one["kind"] == "Pod"
    ]
    assert len(names) == len(set(names)) == len((await client.list(POD)).items)


def test_snapshot_reports_progress_of_a_slow_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(inputs, "time", SimpleNamespace(monotonic=lambda: now))
    progress = inputs.ReadProgress()
    for now in (0.5, 1.2, 1.9, 2.3):
        progress(POD, int(now * 1000))
    assert capsys.readouterr().err == "restow: reading pods, 1200 so far\nrestow: reading pods, 2300 so far\n"


async def test_snapshot_of_a_server_that_fails_in_the_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ails(*_: Any) -> None:
        raise error(500, "InternalError")

    monkeypatch.setattr("restow.running.existing_installation.installed_configuration_documents", ails)
    async with served_cluster(tmp_path) as (_, kubeconfig):
        done = await invoke_restow("snapshot", "--kubeconfig", kubeconfig)
    assert (done.exit_code, done.stderr) == (1, "Error: InternalError, said the server\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param(["snapshot", "--kubeconfig", "/nowhere"], 2, "kubeconfig /nowhere: No such file", id="no file"),
        pytest.param(["plan", "--kubeconfig", "/nowhere"], 2, "kubeconfig /nowhere: No such file", id="plan, no file"),
        pytest.param(["plan"], 2, "to read a file instead, use --snapshot", id="plan, neither"),
        pytest.param(
            ["plan", "--kubeconfig", "x", "--snapshot", "/dev/null"], 2, "cannot be used together", id="plan, both"
        ),
        pytest.param(["snapshot", "--kubeconfig", "{unreachable}"], 1, "cannot list namespaces: ", id="unreachable"),
    ],
)
def test_snapshot_user_mistake_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    unreachable = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    done = CliRunner().invoke(restow, [one.format(unreachable=unreachable) for one in arguments])
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    "words",
    [["plan"], ["snapshot"], ["snapshot", "--anonymise"], ["schedule"], ["explain", "a/b"], ["move", "a/b"], ["pause"]],
    ids=" ".join,
)
async def test_snapshot_of_a_server_that_is_no_api_server_is_an_error(tmp_path: Path, words: list[str]) -> None:
    async with serving(Script(say("<p>File not found</p>", 404, content_type="text/html"))) as port:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", f"http://127.0.0.1:{port}")
        done = await invoke_restow(*words, "--kubeconfig", kubeconfig)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert f"http://127.0.0.1:{port} is not a Kubernetes API server: /api/v1/" in done.stderr
    assert "is not there (404); check the server of the kubeconfig" in done.stderr
