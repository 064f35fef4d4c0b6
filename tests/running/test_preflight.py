"""Checks before components start, and the defaults of the flags of `restow run`."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from restow import app
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import ClusterConfig
from restow.adapters.kubernetes.credentials import StaticCredentials
from restow.adapters.memory import MemoryApi
from restow.client.verbs import Client
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from restow.ports import Forbidden, NotFound, NotKubernetes, OutcomeUnknown, Unauthorized
from restow.running import preflight
from restow.running.preflight import CannotRun, ensure_namespace, missing_kinds, wait_for_api_server
from restow.running.process import Process, ProcessOptions
from tests.client.scripted_api import ScriptedApi

FLAGS: dict[str, Any] = {
    "embedded": False,
    "components": ("scheduler",),
    "config": None,
    "leader_elect": None,
    "lease_duration": "15s",
    "namespace": None,
    "address": None,
    "port": 0,
}


def embedded() -> Client:
    return Client(MemoryApi(SystemClock(), random.Random(1)))


async def test_missing_kinds_are_found() -> None:
    client = embedded()
    for definition in custom_resource_definitions()[:2]:
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    assert [kind.kind for kind in await missing_kinds(client)] == ["PodGroup", "PodMigrationJob"]


async def test_missing_namespace_is_created_once() -> None:
    client = embedded()
    for _ in range(2):
        await ensure_namespace(client, "restow-system")
    assert (await client.get(NAMESPACE, "restow-system")).metadata.name == "restow-system"


@pytest.mark.parametrize(
    ("component", "is_created"),
    [("scheduler", False), ("descheduler", True)],
    ids=["the scheduler needs no Lease", "the descheduler has a Lease for its cycles"],
)
async def test_without_leader_election_only_the_descheduler_needs_the_namespace(
    component: str, is_created: bool
) -> None:
    client, process = embedded(), Process(ProcessOptions(components=(component,), leader_elect=False))
    task = asyncio.create_task(process.run(client.api, SystemClock(), random.Random(1), "of the embedded cluster"))
    names: set[str] = set()
    for _ in range(400 if is_created else 5):
        await asyncio.sleep(0.05)
        names = {namespace.metadata.name for namespace in (await client.list(NAMESPACE)).items}
        if "restow-system" in names:
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ("restow-system" in names) is is_created


async def test_forbidden_namespace_is_an_error() -> None:
    api = ScriptedApi(NotFound.because(404, "NotFound", "gone"), Forbidden.because(403, "Forbidden", "you may not"))
    with pytest.raises(CannotRun, match="namespace home does not exist and cannot be created: you may not"):
        await ensure_namespace(Client(api), "home")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            OutcomeUnknown.because(503, "ServiceUnavailable", "refused"),
            "cannot reach the API server https://x: refused",
        ),
        (NotKubernetes.because(404, "", "https://x is not a Kubernetes API server"), "is not a Kubernetes API server"),
        (Unauthorized.because(401, "Unauthorized", "who?"), "the API server https://x rejects our credentials: who?"),
    ],
    ids=["no answer", "not a Kubernetes API server", "unauthorized"],
)
async def test_unusable_api_server_is_an_error(
    answer: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "API_SERVER_TIMEOUT", -1.0)
    with pytest.raises(CannotRun, match=message):
        await wait_for_api_server(Client(ScriptedApi(answer)), "https://x")  # type: ignore[arg-type]


async def test_api_server_that_answers_forbidden_is_usable() -> None:
    await wait_for_api_server(Client(ScriptedApi(Forbidden.because(403, "Forbidden", "no"))), "https://x")


@pytest.mark.parametrize(
    ("flags", "namespace", "host", "elects"),
    [
        ({}, "restow-system", "127.0.0.1", True),
        ({"embedded": True}, "restow-system", "127.0.0.1", False),
        ({"embedded": True, "leader_elect": True}, "restow-system", "127.0.0.1", True),
        ({"namespace": "mine", "address": "10.0.0.1", "leader_elect": False}, "mine", "10.0.0.1", False),
    ],
    ids=["outside of a cluster", "embedded", "embedded with leader election", "all flags given"],
)
def test_defaults_outside_of_a_pod(flags: dict[str, Any], namespace: str, host: str, elects: bool) -> None:
    options = app.run_options(app.RunFlags(**{**FLAGS, **flags}))
    assert (options.namespace, options.host, options.leader_elect) == (namespace, host, elects)


def test_defaults_in_a_pod_are_its_namespace_and_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ClusterConfig(server="https://x", credentials=StaticCredentials(), namespace="home")
    monkeypatch.setattr(app, "is_in_cluster", lambda env: True)
    monkeypatch.setattr(app, "in_cluster", lambda: config)
    options = app.run_options(app.RunFlags(**FLAGS))
    assert (options.namespace, options.host) == ("home", "0.0.0.0")


@pytest.mark.parametrize(
    ("embedded", "is_included"), [(True, True), (False, False)], ids=["embedded cluster", "other clusters"]
)
def test_default_scheduler_pods_are_included_only_in_the_embedded_cluster(embedded: bool, is_included: bool) -> None:
    options = app.run_options(app.RunFlags(**{**FLAGS, "embedded": embedded}))
    names = options.default_configuration.scheduler.get("schedulerNames", ())
    assert ("default-scheduler" in names) == is_included
