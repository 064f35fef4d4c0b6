"""An Api that answers from a script and records the requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from restow.ports import ApiError, Request, Response

Answer = dict[str, Any] | ApiError | Callable[[Request], Any]


class ScriptedApi:
    """Returns `answers` to calls and `streams` to watches, in order. A stream that ends with OPEN stays open."""

    def __init__(self, *answers: Answer, streams: list[Any] | None = None) -> None:
        self.answers = list(answers)
        self.streams = streams or []
        self.requests: list[Request] = []

    async def call(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return Response(body=msgspec.json.encode(answer))

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        self.requests.append(request)
        stream = self.streams.pop(0) if self.streams else [OPEN]
        for event in stream:
            if isinstance(event, BaseException):
                raise event
            if event is OPEN:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            yield event if isinstance(event, bytes) else msgspec.json.encode(event)

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.requests[-1].body)


OPEN = object()


def pod(name: str, version: int, uid: str | None = None, node: str | None = None) -> dict[str, Any]:
    meta = {"name": name, "namespace": "shop", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": node} if node else {}}


def page(*items: dict[str, Any], version: int, token: str | None = None) -> dict[str, Any]:
    meta = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(items)}


def event(type_: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": type_, "object": item}


def bookmark(version: int, *, initial_end: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": meta})


def error(code: int, reason: str, message: str = "no") -> dict[str, Any]:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return event("ERROR", status | {"code": code, "reason": reason, "message": message})
