"""What a gang's status says in the end, however late it could be written."""

from __future__ import annotations

from collections.abc import AsyncIterator

from restow.model import kinds
from restow.ports import Api, Conflict, Request, Response
from tests.control.stage import group, member, stage
from tests.sim.stage import pass_time, virtual


class _Busy:
    """Somebody else writes the gang all the time, until that ends."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.is_busy = True

    async def call(self, request: Request) -> Response:
        if self.is_busy and request.verb == "patch" and request.resource.plural == "podgroups":
            raise Conflict.because(409, "Conflict", "it has been modified")
        return await self._api.call(request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)


@virtual
async def test_what_was_to_be_said_before_a_gang_started_is_said_no_more() -> None:
    busy: list[_Busy] = []

    def around(api: Api) -> Api:
        busy.append(_Busy(api))
        return busy[0]

    async with stage(nodes=2, around=around) as it:
        await it.create(kinds.POD_GROUP, group("train", 2))
        for name in ("w1", "w2"):
            await it.create(kinds.POD, member(name, "train"))
            await pass_time(5)
        busy[0].is_busy = False
        await pass_time(60)
        status = (await it.document(kinds.POD_GROUP, "train"))["status"]
        assert status["phase"] == "Running"
