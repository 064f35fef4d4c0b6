"""The embedded API server and the real one, asked the same things: the same verdicts, the same defaults.

Every document of `e2e.samples` is created on both with dryRun=All, and put in the place of a good one. Where both
accept, the results must be equal but for what no two servers share; where both refuse, the code and the fields named
must be. A test fails with all cases in which they differ.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from e2e.cluster import namespace_document
from e2e.samples import BASES, NAMESPACE, cases
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi
from restow.adapters.memory import MemoryApi
from restow.model.objects import Document
from restow.ports import AlreadyExists, Api, ApiError
from tests.conformance.server import Server

# Kinds that no controller of the real cluster rewrites once they exist, or only in parts that can be set aside.
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
NAMES = ("/metadata/name ", "/metadata/generateName ")  # an update that changes these is about another object

Ask = Callable[[Server, Document], Awaitable[Document]]


@pytest.mark.parametrize("base", BASES)
async def test_both_servers_agree_on_creation(api: KubernetesApi, base: str) -> None:
    plural, _ = BASES[base]

    async def create(server: Server, document: Document) -> Document:
        return await server.create(plural, document, dryRun="All")

    assert await differences(api, dict(cases(base)), create) == {}


@pytest.mark.parametrize("base", UPDATED)
async def test_both_servers_agree_on_updates(api: KubernetesApi, base: str) -> None:
    plural, good = BASES[base]

    async def update(server: Server, document: Document) -> Document:
        updated = await server.replace(plural, document, name=good["metadata"]["name"], dryRun="All")
        return without_controllers(updated)

    updates = {name: document for name, document in cases(base) if not name.startswith(NAMES)}
    assert await differences(api, updates, update, existing=(plural, good)) == {}


async def differences(
    api: Api, documents: dict[str, Document], ask: Ask, *, existing: tuple[str, Document] | None = None
) -> Document:
    """What each server made of the documents on which they do not agree."""
    embedded, real = (Server(each, NAMESPACE) for each in (MemoryApi(SystemClock(), random.Random(7)), api))
    for server in (embedded, real):
        with suppress(AlreadyExists):
            await server.create("namespaces", namespace_document(NAMESPACE))
        if existing is not None:
            with suppress(AlreadyExists):
                await server.create(*existing)

    async def both(document: Document) -> tuple[Document, Document]:
        return await judged(ask(embedded, document)), await judged(ask(real, document))

    answers = await asyncio.gather(*(both(document) for document in documents.values()))
    return {
        name: {"embedded": told, "real": expected}
        for name, (told, expected) in zip(documents, answers, strict=True)
        if told != expected
    }


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
    whole: Document = _impersonal(document, document["metadata"].get("uid"))
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


def without_controllers(document: Document) -> Document:
    """Without status and versions, and without the annotations of workloads, which Deployments count as changes."""
    metadata = document["metadata"]
    document.pop("status", None)
    metadata.pop("resourceVersion", None)
    if document["kind"] in ("Deployment", "DaemonSet"):
        metadata.pop("generation", None)
        metadata.pop("annotations", None)
    return document


def _drop(holder: Document, name: str, items: tuple[Any, ...]) -> None:
    kept = [item for item in holder.pop(name, ()) if item not in items]
    if kept:
        holder[name] = kept


def _impersonal(value: Any, uid: str | None) -> Any:
    """Without the UID, which the selector of a Job carries, and without the moments of conditions."""
    if isinstance(value, dict):
        return {key: _impersonal(item, uid) for key, item in value.items() if key != "lastTransitionTime"}
    if isinstance(value, list):
        return [_impersonal(item, uid) for item in value]
    return "the uid" if uid is not None and value == uid else value
