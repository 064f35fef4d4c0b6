"""Create a generated cluster in an API server.

A server gives objects uids of its own, so every reference to an owner or a claim is rewritten to the uid the server
gave. Statuses go through the status subresource, as their real writers send them. Server-side defaults change
templates, so the revision that a StatefulSet or DaemonSet pod carries is computed from the template as the server
keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from restow.client.verbs import Client
from restow.model.kinds import ALL_KINDS, Kind
from restow.model.objects import Document
from restow.ports import AlreadyExists
from restow.sim.world.template import REVISION_HASH, revision_name

_KINDS: dict[tuple[str, str], Kind[Any]] = {(kind.api_version, kind.kind): kind for kind in ALL_KINDS}
_LAYERS = (
    ("Namespace", "PriorityClass", "StorageClass"),
    ("Node", "Deployment", "PersistentVolumeClaim"),
    ("ReplicaSet", "StatefulSet", "DaemonSet", "Job", "PersistentVolume"),
    ("PodDisruptionBudget",),
    ("Pod",),
)


async def load_documents(client: Client, documents: Iterable[Document], *, parallel: int = 16) -> None:
    """Create everything, owners before what they own, `parallel` requests at a time. What exists already is kept.

    Load before the world starts: controllers that see a workload before its pods make pods of their own.
    """
    await _Loader(client, parallel).load(list(documents))


class _Loader:
    def __init__(self, client: Client, parallel: int) -> None:
        self._client = client
        self._gate = asyncio.Semaphore(parallel)
        self._uids: dict[str, str] = {}
        self._revisions: dict[str, str] = {}

    async def load(self, documents: list[Document]) -> None:
        for layer in _LAYERS:
            waiting = [self._create(document) for document in documents if document["kind"] in layer]
            await asyncio.gather(*waiting)

    async def _create(self, document: Document) -> None:
        kind = _KINDS[document["apiVersion"], document["kind"]]
        async with self._gate:
            with suppress(AlreadyExists):
                created = await self._client.create(kind, self._rewritten(document))
                self._uids[document["metadata"]["uid"]] = created.metadata.uid
                await self._finish(kind, document)

    async def _finish(self, kind: Kind[Any], document: Document) -> None:
        metadata = document["metadata"]
        namespace = metadata.get("namespace")
        if document.get("status") and document["kind"] != "Namespace":
            changes = {"status": document["status"]}
            await self._client.patch(kind, metadata["name"], changes, namespace, subresource="status")
        if document["kind"] in ("StatefulSet", "DaemonSet"):
            kept = await self._client.get_document(kind, metadata["name"], namespace)
            self._revisions[metadata["uid"]] = revision_name(metadata["name"], kept["spec"]["template"])

    def _rewritten(self, document: Document) -> Document:
        """The document as it may be sent: references in the server's uids, nothing the server decides itself."""
        metadata = {
            key: value
            for key, value in document["metadata"].items()
            if key not in ("uid", "creationTimestamp", "generation", "ownerReferences")
        }
        owners = document["metadata"].get("ownerReferences") or ()
        if owners:
            metadata["ownerReferences"] = [each | {"uid": self._uids.get(each["uid"], each["uid"])} for each in owners]
        if document["kind"] == "Pod" and owners:
            metadata["labels"] = self._labels(metadata.get("labels") or {}, owners[0]["uid"])
        sent = {key: value for key, value in document.items() if key != "status"} | {"metadata": metadata}
        reference = sent.get("spec", {}).get("claimRef")
        if reference:
            claim = reference | {"uid": self._uids.get(reference["uid"], reference["uid"])}
            sent["spec"] = sent["spec"] | {"claimRef": claim}
        return sent

    def _labels(self, labels: dict[str, str], owner: str) -> dict[str, str]:
        """Labels that name the owner's uid or revision, as the server knows them."""
        labels = {key: self._uids.get(value, value) for key, value in labels.items()}
        return labels | {REVISION_HASH: self._revisions[owner]} if owner in self._revisions else labels
