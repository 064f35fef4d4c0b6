"""`restow install`, `pause` and `resume`."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from restow.adapters.clock import SystemClock
from restow.adapters.memory import MemoryApi
from restow.adapters.rest import serve
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.cli import restow
from restow.client.verbs import Client
from restow.commands.operating import announce
from restow.migration.stop import stopped
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from restow.running.installing import LABELS, Found, documents, look
from restow.running.living import turn_stop_switch
from tests.cli.clusters import documents_in


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[Client, Path]]:
    memory = MemoryApi(SystemClock(), random.Random(1))
    server = await serve(memory)
    try:
        yield Client(memory), write_kubeconfig(tmp_path / "kubeconfig", server.url)
    finally:
        await server.close()


def made(**options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    found = documents(namespace="restow-system", image="example.com/restow:1", **options)
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


# --- install ----------------------------------------------------------------------------------------------------------


def test_what_is_printed_is_what_a_cluster_accepts() -> None:
    done = CliRunner().invoke(restow, ["install", "--kubeconfig", "/nowhere", "--namespace", "elsewhere"])
    assert done.exit_code == 0
    printed = documents_in(done.stdout)
    assert {one["kind"] for one in printed} == {
        *("Namespace", "CustomResourceDefinition", "ServiceAccount", "ConfigMap", "Deployment"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    assert {one["metadata"].get("namespace", "elsewhere") for one in printed} == {"elsewhere"}
    assert done.stderr.startswith("restow: no cluster was looked at; mind other makers of our kinds there: kubeconfig")


async def test_what_is_ours_is_not_in_our_way(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (client, _):
        for (kind, _name), one in made().items():
            if kind == "CustomResourceDefinition":
                await client.create(CUSTOM_RESOURCE_DEFINITION, one)
        assert await look(client) == Found()


def test_nobody_who_edits_a_namespace_gets_power_over_the_cluster() -> None:
    edit = made()["ClusterRole", "restow-edit"]
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert [rule["resources"] for rule in edit["rules"]] == [["podgroups"]]


def test_no_rule_allows_everything() -> None:
    for document in made().values():
        for rule in document.get("rules", ()):
            assert not {"*"} & {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
            assert "secrets" not in rule["resources"]


async def test_what_others_made_is_left_alone_and_second_masters_are_named(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (client, _):
        theirs, ours = custom_resource_definitions()[:2]
        theirs["metadata"]["labels"] = {}
        for definition in (theirs, ours):
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
        template = {
            "metadata": {"labels": {"app": "v"}},
            "spec": {"containers": [{"name": "v", "image": "docker.io/volcanosh/vc-scheduler:v1.13.0"}]},
        }
        spec = {"selector": {"matchLabels": {"app": "v"}}, "template": template}
        await client.create(DEPLOYMENT, {"metadata": {"name": "volcano", "namespace": "default"}, "spec": spec})
        found = await look(client)
    name = theirs["metadata"]["name"]
    assert found.definitions == (name,)
    assert found.masters == ("Deployment default/volcano is Volcano's scheduler, which also writes PodGroups",)
    assert ("CustomResourceDefinition", name) not in made(without=found.definitions)


def test_a_configuration_is_installed_as_it_is_and_the_policy_goes_by_it(tmp_path: Path) -> None:
    (tmp_path / "restow.yaml").write_text("queues: {maxGuaranteed: 30, maxGuaranteedOf: {ml: 20}} # mine\n")
    arguments = ["install", "--kubeconfig", "/nowhere", "--config", str(tmp_path / "restow.yaml")]
    printed = documents_in(CliRunner().invoke(restow, arguments).stdout)
    data = {one["metadata"]["name"]: one["data"] for one in printed if one["kind"] == "ConfigMap"}
    assert data["restow"]["restow.yaml"].endswith("# mine\n")
    assert data["restow-queue-ceilings"] == {"share_": "30", "share_ml": "20"}


@pytest.mark.parametrize(
    ("option", "value"), [("--namespace", "My Team"), ("--image", "")], ids=["no name of a namespace", "no image"]
)
def test_what_no_cluster_would_take_is_not_printed(option: str, value: str) -> None:
    done = CliRunner().invoke(restow, ["install", "--kubeconfig", "/nowhere", option, value])
    assert (done.exit_code, done.stdout) == (2, "") and f"Invalid value for '{option}'" in done.stderr


def test_what_is_installed_is_for_people_to_read() -> None:
    done = CliRunner().invoke(restow, ["install", "--kubeconfig", "/nowhere"])
    assert "  restow.yaml: |\n    scheduler: {schedulerNames: [restow]}\n" in done.stdout and "&id" not in done.stdout


def test_a_configuration_that_is_wrong_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "restow.yaml").write_text("queues: {maxGuaranteed: 101}\nreservations: {namespaceShare: -1}\n")
    arguments = ["install", "--kubeconfig", "/nowhere", "--config", str(tmp_path / "restow.yaml")]
    done = CliRunner().invoke(restow, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "queues.maxGuaranteed: 101" in done.stderr and "reservations.namespaceShare: -1" in done.stderr


def test_definitions_say_that_they_are_ours() -> None:
    for (kind, _), document in made().items():
        if kind == "CustomResourceDefinition":
            assert document["metadata"]["labels"] == LABELS


# --- the stop switch --------------------------------------------------------------------------------------------------


async def test_the_stop_switch_is_turned_on_and_off(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (client, kubeconfig):
        on: dict[str, str | None] = {"paused": "true", "reason": "maintenance"}
        off: dict[str, str | None] = {"paused": "false", "reason": None}
        told = [stopped(await turn_stop_switch(kubeconfig, "restow-system", data)) for data in (on, on, off)]
        assert told == ["evictions are stopped: maintenance; restow resume lets them go on"] * 2 + [None]
        switch = await client.get(CONFIG_MAP, "restow-stop", "restow-system")
        assert switch.data == {"paused": "false"}


async def test_pausing_again_without_a_reason_keeps_the_last_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, kubeconfig):
        told = []
        for more in (["--reason", "maintenance"], [], ["--reason", "storm"]):
            arguments = ["pause", "--kubeconfig", str(kubeconfig), *more]
            told.append((await asyncio.to_thread(CliRunner().invoke, restow, arguments)).stdout)
        reasons = ("maintenance", "maintenance", "storm")
        assert told == [f"evictions are stopped: {why}; restow resume lets them go on\n" for why in reasons]


async def test_programs_are_told_how_the_stop_switch_stands(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, kubeconfig):
        told = []
        for words in (["pause"], ["pause", "--reason", "storm"], ["resume"]):
            arguments = [*words, "--kubeconfig", str(kubeconfig), "-o", "json"]
            told.append(json.loads((await asyncio.to_thread(CliRunner().invoke, restow, arguments)).stdout))
        paused = [{"paused": True, "reason": None}, {"paused": True, "reason": "storm"}]
        assert told == [*paused, {"paused": False, "reason": None}]


def test_where_a_cluster_is_served_is_told_as_everything_beside_the_result_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    announce(tmp_path, "http://127.0.0.1:1")
    told = capsys.readouterr()
    assert told.out == f"{tmp_path}\n"
    assert told.err.startswith("restow: serving http://127.0.0.1:1; in another terminal: export KUBECONFIG=")


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_no_cluster_is_the_users_mistake(command: str) -> None:
    done = CliRunner().invoke(restow, [command, "--kubeconfig", "/nowhere"])
    assert done.exit_code == 2
    assert "kubeconfig /nowhere: No such file or directory" in done.stderr
