"""What is found out, or goes without saying, before anything runs."""

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
from restow.running import reaching
from restow.running.process import Options, Process
from restow.running.reaching import CannotRun, find_namespace, missing_kinds, reach
from tests.client.script import ScriptedApi

ASKED: dict[str, Any] = {
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


async def test_kinds_that_are_not_installed_are_found() -> None:
    client = embedded()
    for definition in custom_resource_definitions()[:2]:
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition)
    assert [kind.kind for kind in await missing_kinds(client)] == ["PodGroup", "PodMigrationJob"]


async def test_our_namespace_is_made_if_it_is_missing() -> None:
    client = embedded()
    for _ in range(2):
        await find_namespace(client, "restow-system")
    assert (await client.get(NAMESPACE, "restow-system")).metadata.name == "restow-system"


@pytest.mark.parametrize(
    ("component", "made"), [("scheduler", False), ("descheduler", True)], ids=["needs none", "takes turns by a Lease"]
)
async def test_without_elections_there_is_a_namespace_for_whoever(component: str, made: bool) -> None:
    client, process = embedded(), Process(Options(components=(component,), leader_elect=False))
    task = asyncio.create_task(process.run(client.api, SystemClock(), random.Random(1), "that is embedded"))
    names: set[str] = set()
    for _ in range(400 if made else 5):
        await asyncio.sleep(0.05)
        names = {one.metadata.name for one in (await client.list(NAMESPACE)).items}
        if "restow-system" in names:
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ("restow-system" in names) is made


async def test_who_may_not_make_it_is_told() -> None:
    api = ScriptedApi(NotFound.because(404, "NotFound", "gone"), Forbidden.because(403, "Forbidden", "you may not"))
    with pytest.raises(CannotRun, match="there is no namespace home, and it cannot be created: you may not"):
        await find_namespace(Client(api), "home")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            OutcomeUnknown.because(503, "ServiceUnavailable", "refused"),
            "cannot reach the API server https://x: refused",
        ),
        (NotKubernetes.because(404, "", "https://x is not a Kubernetes API server"), "is not a Kubernetes API server"),
        (Unauthorized.because(401, "Unauthorized", "who?"), "the API server https://x does not know us: who?"),
    ],
    ids=["nobody there", "something else there", "unknown to it"],
)
async def test_an_api_server_that_cannot_be_used(answer: Exception, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaching, "REACH_WITHIN", -1.0)
    with pytest.raises(CannotRun, match=told):
        await reach(Client(ScriptedApi(answer)), "https://x")  # type: ignore[arg-type]


async def test_one_that_answers_anything_is_there() -> None:
    await reach(Client(ScriptedApi(Forbidden.because(403, "Forbidden", "no"))), "https://x")


@pytest.mark.parametrize(
    ("asked", "namespace", "host", "elects"),
    [
        ({}, "restow-system", "127.0.0.1", True),
        ({"embedded": True}, "restow-system", "127.0.0.1", False),
        ({"embedded": True, "leader_elect": True}, "restow-system", "127.0.0.1", True),
        ({"namespace": "mine", "address": "10.0.0.1", "leader_elect": False}, "mine", "10.0.0.1", False),
    ],
    ids=["outside of a cluster", "embedded", "embedded and contended for", "as asked"],
)
def test_what_goes_without_saying(asked: dict[str, Any], namespace: str, host: str, elects: bool) -> None:
    found = app.run_options(**{**ASKED, **asked})
    assert (found.namespace, found.host, found.leader_elect) == (namespace, host, elects)


def test_in_a_pod_it_is_the_pods_namespace_and_probes_get_through(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ClusterConfig(server="https://x", credentials=StaticCredentials(), namespace="home")
    monkeypatch.setattr(app, "is_in_cluster", lambda env: True)
    monkeypatch.setattr(app, "in_cluster", lambda: config)
    found = app.run_options(**ASKED)
    assert (found.namespace, found.host) == ("home", "0.0.0.0")


@pytest.mark.parametrize(("embedded", "taken"), [(True, True), (False, False)], ids=["embedded", "somebody's"])
def test_where_nobody_else_schedules_everybodys_pods_are_ours(embedded: bool, taken: bool) -> None:
    names = app.run_options(**{**ASKED, "embedded": embedded}).otherwise.scheduler.get("schedulerNames", ())
    assert ("default-scheduler" in names) == taken
