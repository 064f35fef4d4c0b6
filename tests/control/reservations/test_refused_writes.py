"""A server that lets nobody write the status of reservations: nothing is held in secret, or forgotten."""

from __future__ import annotations

from restow.model import kinds
from restow.ports import Api, Forbidden, Request, Response
from tests.control.reservations.stage import phase, reservation
from tests.control.stage import places, stage
from tests.sim.stage import pass_time, pod, virtual


class Strict:
    """An Api that lets nobody write the status of reservations for a while."""

    def __init__(self) -> None:
        self.refuses = True
        self.refused = 0

    def around(self, api: Api) -> Api:
        self.watch, self._api = api.watch, api
        return self

    async def call(self, request: Request) -> Response:
        if self.refuses and (request.resource.plural, request.subresource) == ("reservations", "status"):
            self.refused += 1
            raise Forbidden.because(403, "Forbidden", "no rights")
        return await self._api.call(request)


@virtual
async def test_what_cannot_be_written_down_is_not_held_and_tried_again_with_pauses() -> None:
    strict = Strict()
    async with stage(nodes=1, around=strict.around) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1, cpu="2"))
        await pass_time(60)
        assert 5 < strict.refused < 25
        await it.create(kinds.POD, pod("other", "3", app="other"))
        await pass_time(20)
        assert await places(it) == {"other": "n1"}
        await it.delete(kinds.POD, "other", grace_seconds=0)
        strict.refuses = False
        await pass_time(20)
        assert await phase(it) == ("Available", "Reserved")


@virtual
async def test_who_took_a_seat_and_left_is_written_down_once_that_is_allowed() -> None:
    strict = Strict()
    strict.refuses = False
    async with stage(nodes=1, around=strict.around) as it:
        await it.create(kinds.RESERVATION, reservation(replicas=1))
        await pass_time(3)
        strict.refuses = True
        await it.create(kinds.POD, pod("p"))
        await pass_time(5)
        await it.delete(kinds.POD, "p", grace_seconds=0)
        await pass_time(5)
        assert strict.refused > 1
        strict.refuses = False
        await pass_time(20)
        assert await phase(it) == ("Succeeded", "Consumed")
