"""The embedded API server and the real one, asked the same things: the same verdicts, the same defaults.

Every document of `e2e.samples` is created on both with dryRun=All, and put in the place of a good one. Where both
accept, the results must be equal but for what no two servers share; where both refuse, the code and the fields named
must be.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import pytest

from e2e.cluster import namespace_document
from e2e.samples import BASES, cases
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi
from restow.adapters.memory import MemoryApi
from restow.ports import AlreadyExists, Api, ApiError
from tests.conformance.server import Document, Server

CASES = list(cases())
NAMESPACE = "differential"
# Kinds that no controller of the real cluster rewrites once they exist; the status of the others is left out.
UPDATED = (
    "pod",
    "deployment",
    "replicaset",
    "statefulset",
    "daemonset",
    "node",
    "configmap",
    "secret",
    "storageclass",
    "budget",
    "lease",
    "priorityclass",
)
NAMES = (" /metadata/name ", " /metadata/generateName ")  # say which object it is
UPDATES = [case for case in CASES if case[0].split()[0] in UPDATED and not any(name in case[0] for name in NAMES)]


@pytest.fixture(scope="module")
def memory() -> MemoryApi:
    return MemoryApi(SystemClock(), random.Random(7))


async def outcome(api: Api, plural: str, document: Document) -> Document:
    return await judged(Server(api, "default").create(plural, document, dryRun="All"))


async def outcome_of_update(api: Api, plural: str, base: Document, document: Document) -> Document:
    server = Server(api, NAMESPACE)
    with suppress(AlreadyExists):
        await server.create("namespaces", namespace_document(NAMESPACE))
    with suppress(AlreadyExists):
        await server.create(plural, base)
    verdict = await judged(server.replace(plural, document, name=base["metadata"]["name"], dryRun="All"))
    if "accepted" in verdict:
        _leave_to_controllers(verdict["accepted"])
    return verdict


def _leave_to_controllers(document: Document) -> None:
    """Status and versions; annotations of workloads, which count into the generation of Deployments."""
    metadata = document["metadata"]
    document.pop("status", None)
    metadata.pop("resourceVersion", None)
    if document["kind"] in ("Deployment", "DaemonSet"):
        metadata.pop("generation", None)
        metadata.pop("annotations", None)


async def judged(work: Awaitable[Document]) -> Document:
    try:
        return {"accepted": shared(await work)}
    except ApiError as error:
        details = error.status.details
        fields = sorted({cause.field or "" for cause in (details.causes if details else None) or []})
        return {"refused": error.status.code, "fields": fields}


# What a real cluster adds at creation for the sake of its own controllers and allocators, which have no counterpart in
# the embedded one. (The real one here, in turn, runs without the ServiceAccount admission plugin.)
CLUSTERS_OWN = {
    "Pod": ("spec", ("serviceAccount", "serviceAccountName")),
    "Service": ("spec", ("clusterIPs", "ipFamilies", "ipFamilyPolicy")),
    "PersistentVolume": ("status", ("lastPhaseTransitionTime",)),
}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
PROTECTION = ("kubernetes.io/pv-protection", "kubernetes.io/pvc-protection")
MADE_BY_THE_SERVER = ("uid", "creationTimestamp", "managedFields")


def shared(document: Document) -> Document:
    """The part of a created object that does not depend on who created it and when."""
    whole: Document = _without(document["metadata"].get("uid"), document)
    metadata = whole["metadata"]
    for name in MADE_BY_THE_SERVER:
        metadata.pop(name, None)
    _drop(metadata, "finalizers", PROTECTION)
    if whole["kind"] == "Node":
        _drop(whole["spec"], "taints", (NOT_READY,))
    section, names = CLUSTERS_OWN.get(whole["kind"], ("metadata", ()))
    for name in names:
        whole[section].pop(name, None)
    return whole


def _drop(holder: Document, name: str, items: tuple[Any, ...]) -> None:
    kept = [item for item in holder.pop(name, ()) if item not in items]
    if kept:
        holder[name] = kept


def _without(uid: str | None, value: Any) -> Any:
    """Job selectors carry the UID of the job."""
    if isinstance(value, dict):
        return {key: _without(uid, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(uid, item) for item in value]
    return "the uid" if uid is not None and value == uid else value


@pytest.mark.parametrize(("plural", "document"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_both_servers_agree(api: KubernetesApi, memory: MemoryApi, plural: str, document: Document) -> None:
    assert await outcome(memory, plural, document) == await outcome(api, plural, document)


@pytest.mark.parametrize(
    ("case", "plural", "document"), [(case[0], *case[1:]) for case in UPDATES], ids=[case[0] for case in UPDATES]
)
async def test_both_servers_agree_on_updates(
    api: KubernetesApi, memory: MemoryApi, case: str, plural: str, document: Document
) -> None:
    base = BASES[case.split(" ", 1)[0]][1]
    told = await outcome_of_update(memory, plural, base, document)
    assert told == await outcome_of_update(api, plural, base, document)
