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
from restow.commands.admin import announce_kubeconfig
from restow.migration.stop_switch import stop_reason
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from restow.running.install_manifest import LABELS, ForeignInstallation, inspect_cluster, install_documents
from restow.running.one_shot_client import write_stop_switch
from tests.cli.snapshot_documents import documents_in


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[Client, Path]]:
    memory = MemoryApi(SystemClock(), random.Random(1))
    server = await serve(memory)
    try:
        yield Client(memory), write_kubeconfig(tmp_path / "kubeconfig", server.url)
    finally:
        await server.close()


def manifest_objects(**options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    documents = install_documents(namespace="restow-system", image="example.com/restow:1", **options)
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


# --- install ----------------------------------------------------------------------------------------------------------


def test_manifest_has_all_kinds_in_the_namespace() -> None:
    done = CliRunner().invoke(restow, ["install", "--kubeconfig", "/nowhere", "--namespace", "elsewhere"])
    assert done.exit_code == 0
    printed = documents_in(done.stdout)
    assert {document["kind"] for document in printed} == {
        *("Namespace", "CustomResourceDefinition", "ServiceAccount", "ConfigMap", "Deployment"),
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    assert {document["metadata"].get("namespace", "elsewhere") for document in printed} == {"elsewhere"}
    assert done.stderr.startswith("restow: the cluster was not checked for conflicting installations: kubeconfig")


async def test_our_own_definitions_are_no_conflict(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (client, _):
        for (kind, _name), document in manifest_objects().items():
            if kind == "CustomResourceDefinition":
                await client.create(CUSTOM_RESOURCE_DEFINITION, document)
        assert await inspect_cluster(client) == ForeignInstallation()


def test_role_edit_grants_podgroups_only() -> None:
    edit = manifest_objects()["ClusterRole", "restow-edit"]
    assert edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    assert [rule["resources"] for rule in edit["rules"]] == [["podgroups"]]


def test_no_rule_has_wildcards_or_secrets() -> None:
    for document in manifest_objects().values():
        for rule in document.get("rules", ()):
            assert not {"*"} & {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}
            assert "secrets" not in rule["resources"]


async def test_foreign_definitions_are_left_out_and_conflicting_controllers_named(tmp_path: Path) -> None:
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
        foreign = await inspect_cluster(client)
    name = theirs["metadata"]["name"]
    assert foreign.definitions == (name,)
    assert foreign.controllers == ("Deployment default/volcano is Volcano's scheduler, which also writes PodGroups",)
    assert ("CustomResourceDefinition", name) not in manifest_objects(without=foreign.definitions)


def test_configuration_is_installed_verbatim_and_sets_the_queue_ceilings(tmp_path: Path) -> None:
    (tmp_path / "restow.yaml").write_text("queues: {maxGuaranteed: 30, maxGuaranteedOf: {ml: 20}} # mine\n")
    arguments = ["install", "--kubeconfig", "/nowhere", "--config", str(tmp_path / "restow.yaml")]
    printed = documents_in(CliRunner().invoke(restow, arguments).stdout)
    data = {document["metadata"]["name"]: document["data"] for document in printed if document["kind"] == "ConfigMap"}
    assert data["restow"]["restow.yaml"].endswith("# mine\n")
    assert data["restow-queue-ceilings"] == {"share_": "30", "share_ml": "20"}


@pytest.mark.parametrize(
    ("option", "value"), [("--namespace", "My Team"), ("--image", "")], ids=["invalid namespace", "no image"]
)
def test_invalid_namespace_or_image_is_refused(option: str, value: str) -> None:
    done = CliRunner().invoke(restow, ["install", "--kubeconfig", "/nowhere", option, value])
    assert (done.exit_code, done.stdout) == (2, "") and f"Invalid value for '{option}'" in done.stderr


def test_manifest_is_readable_yaml() -> None:
    done = CliRunner().invoke(restow, ["install", "--kubeconfig", "/nowhere"])
    assert "  restow.yaml: |\n    scheduler: {schedulerNames: [restow]}\n" in done.stdout and "&id" not in done.stdout


def test_invalid_configuration_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "restow.yaml").write_text("queues: {maxGuaranteed: 101}\nreservations: {namespaceShare: -1}\n")
    arguments = ["install", "--kubeconfig", "/nowhere", "--config", str(tmp_path / "restow.yaml")]
    done = CliRunner().invoke(restow, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "queues.maxGuaranteed: 101" in done.stderr and "reservations.namespaceShare: -1" in done.stderr


def test_definitions_have_our_labels() -> None:
    for (kind, _), document in manifest_objects().items():
        if kind == "CustomResourceDefinition":
            assert document["metadata"]["labels"] == LABELS


# --- the stop switch --------------------------------------------------------------------------------------------------


async def test_stop_switch_is_turned_on_and_off(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (client, kubeconfig):
        on: dict[str, str | None] = {"paused": "true", "reason": "maintenance"}
        off: dict[str, str | None] = {"paused": "false", "reason": None}
        reasons = [stop_reason(await write_stop_switch(kubeconfig, "restow-system", data)) for data in (on, on, off)]
        assert reasons == ["evictions are stopped: maintenance; run restow resume to continue"] * 2 + [None]
        switch = await client.get(CONFIG_MAP, "restow-stop", "restow-system")
        assert switch.data == {"paused": "false"}


async def test_pausing_again_without_a_reason_keeps_the_last_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, kubeconfig):
        outputs = []
        for more in (["--reason", "maintenance"], [], ["--reason", "storm"]):
            arguments = ["pause", "--kubeconfig", str(kubeconfig), *more]
            outputs.append((await asyncio.to_thread(CliRunner().invoke, restow, arguments)).stdout)
        reasons = ("maintenance", "maintenance", "storm")
        assert outputs == [f"evictions are stopped: {reason}; run restow resume to continue\n" for reason in reasons]


async def test_json_output_of_pause_and_resume(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, kubeconfig):
        outputs = []
        for words in (["pause"], ["pause", "--reason", "storm"], ["resume"]):
            arguments = [*words, "--kubeconfig", str(kubeconfig), "-o", "json"]
            outputs.append(json.loads((await asyncio.to_thread(CliRunner().invoke, restow, arguments)).stdout))
        paused = [{"paused": True, "reason": None}, {"paused": True, "reason": "storm"}]
        assert outputs == [*paused, {"paused": False, "reason": None}]


def test_kubeconfig_path_goes_to_stdout_and_the_rest_to_stderr(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    announce_kubeconfig(tmp_path, "http://127.0.0.1:1")
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path}\n"
    assert captured.err.startswith("restow: serving http://127.0.0.1:1; in another terminal: export KUBECONFIG=")


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_missing_kubeconfig_is_bad_input(command: str) -> None:
    done = CliRunner().invoke(restow, [command, "--kubeconfig", "/nowhere"])
    assert done.exit_code == 2
    assert "kubeconfig /nowhere: No such file or directory" in done.stderr
