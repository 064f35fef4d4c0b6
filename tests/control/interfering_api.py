"""Interference with bindings: an API that fails or acts in between, and a plugin that records and answers as set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar

from restow.ports import (
    Api,
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    Request,
    Response,
    TooManyRequests,
)
from restow.scheduling.framework import (
    SUCCESS,
    Cycle,
    PermitPlugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
    Verdict,
)
from restow.scheduling.writes import Write

UNKNOWN = OutcomeUnknown.because(504, "Timeout", "lost in the net")
BUSY = TooManyRequests.because(429, "TooManyRequests", "not now")
FORBIDDEN = Forbidden.because(403, "Forbidden", "no bindings today")
CONFLICT = Conflict.because(409, "Conflict", "no")
MISSING = NotFound.because(404, "NotFound", "no such pod")


class InterferingApi:
    """An Api that interferes with Bindings: errors in `before` are raised instead of the Binding, errors in `after`
    although it took effect, and `first` is called before the first one."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.before: list[ApiError] = []
        self.after: list[ApiError] = []
        self.first: Callable[[], Any] | None = None
        self.bindings = 0

    async def call(self, request: Request) -> Response:
        if request.subresource != "binding":
            return await self._api.call(request)
        self.bindings += 1
        if self.first is not None:
            first, self.first = self.first, None
            await first()
        if self.before:
            raise self.before.pop(0)
        response = await self._api.call(request)
        if self.after:
            raise self.after.pop(0)
        return response

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


class RecordingPlugin(ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin):
    """Records its calls in `journal`, and answers with `permits` and `settles`."""

    name: ClassVar[str] = "Keeper"

    def __init__(self, name: str = "Keeper") -> None:
        super().__init__()
        self.name = name  # type: ignore[misc]
        self.journal: list[str] = []
        self.permits: list[Verdict] = []
        self.settles: list[Verdict] = []
        self.permit_timeout = 10.0

    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        self.journal.append("reserve")
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.journal.append("unreserve")

    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        return (self.permits.pop(0) if len(self.permits) > 1 else (self.permits or [SUCCESS])[0]), self.permit_timeout

    def pre_bind(self, cycle: Cycle, node: str) -> Sequence[Write]:
        self.journal.append("pre-bind")
        return ()

    def settled(self, cycle: Cycle, node: str) -> Verdict:
        return self.settles.pop(0) if self.settles else SUCCESS

    def post_bind(self, cycle: Cycle, node: str) -> None:
        self.journal.append("post-bind")


def interfering_api(**story: Any) -> tuple[list[InterferingApi], Callable[[Api], Api]]:
    made: list[InterferingApi] = []

    def around(api: Api) -> Api:
        made.append(InterferingApi(api))
        for name, value in story.items():
            setattr(made[0], name, value)
        return made[0]

    return made, around


class ForbiddenBindApi:
    """An Api that refuses every Binding of one pod, and counts them."""

    def __init__(self, api: Api, name: str) -> None:
        self.times_asked = 0
        self.watch = api.watch
        self._api = api
        self._name = name

    async def call(self, request: Request) -> Response:
        if request.subresource == "binding" and request.name == self._name:
            self.times_asked += 1
            raise FORBIDDEN
        return await self._api.call(request)


class BlindWatchApi:
    """An Api with watches that never show that one pod is bound."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._signs = (f'"name":"{name}"'.encode(), b'"nodeName":')
        self.call = api.call

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if request.resource.plural != "pods" or not all(sign in event for sign in self._signs):
                yield event
