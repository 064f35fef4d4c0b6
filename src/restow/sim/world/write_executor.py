"""Sends the writes of a `Step` to the API server and passes the answers back to the world's view.

In: one write at a time. Out: an object in the API server, and a call of `apply_written` with the server's answer, so
that rules never act twice on the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from restow.client.create_once import create_once
from restow.client.event_recorder import EventRecorder
from restow.client.verbs import Client
from restow.model.kinds import Kind
from restow.model.objects import Object
from restow.ports import NotFound
from restow.sim.world.step import Create, Delete, Patch, Record, Write


class WriteExecutor:
    """Raises ApiError where the server refuses a write, or its outcome is unknown."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        *,
        apply_written: Callable[[Kind[Any], Object], None],
        apply_deleted: Callable[[str], None],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._apply_written = apply_written
        self._apply_deleted = apply_deleted

    async def execute(self, write: Write) -> None:
        if isinstance(write, Create):
            await self._create(write)
        elif isinstance(write, Patch):
            await self._patch(write)
        elif isinstance(write, Delete):
            await self._delete(write)
        elif isinstance(write, Record):
            self._recorder.record(write.about, write.reason, write.message, type=write.type)

    async def _create(self, write: Create) -> None:
        # Retry under the same name until the outcome is known: after an unknown outcome, an object of another name
        # could be one too many, and the pods of a Job would all count.
        created = await create_once(self._client, write.kind, write.document, tries=None, adopt=False)
        self._apply_written(write.kind, created)

    async def _patch(self, write: Patch) -> None:
        patched = await self._client.patch(
            write.kind,
            write.name,
            write.changes,
            write.namespace,
            type=write.type,
            subresource=write.subresource,
            resource_version=write.version,
        )
        self._apply_written(write.kind, patched)

    async def _delete(self, write: Delete) -> None:
        with suppress(NotFound):  # an object of that uid that is gone already is deleted, too
            await self._client.delete(write.kind, write.name, write.namespace, uid=write.uid, grace_seconds=write.grace)
        self._apply_deleted(write.uid)
