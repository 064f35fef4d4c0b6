"""Changes of several reservations on one node, of which nobody has heard yet: who asks for more gives way."""

from __future__ import annotations

from typing import Any

import pytest

from restow.control.scheduler import Settings
from restow.model import kinds
from restow.ports import Api, Forbidden, Request, Response
from tests.control.reservations.auditor import Auditor
from tests.control.reservations.stage import Barrier, phase, reservation
from tests.control.stage import world
from tests.sim.stage import pass_time, pod, scheduler, template, virtual

ALL = Settings(namespace_share=100)
HELD, LOST = ("Available", "Reserved"), ("Failed", "RoomTaken")


def of(cpu: str) -> dict[str, Any]:
    return {"tasks": [{"name": "web", "replicas": 1, "template": template(cpu)}]}


@pytest.mark.parametrize(
    ("older", "newer", "outcome"),
    [
        pytest.param(of("3"), {}, (LOST, HELD), id="not who stays as it is"),
        pytest.param(of("3"), {"owners": []}, (LOST, HELD), id="not who is somebody else's"),
        pytest.param(of("3"), {"ttl": "1h"}, (LOST, HELD), id="not who stays longer"),
        pytest.param(of("3"), of("1500m"), (LOST, HELD), id="not who asks for less"),
        pytest.param(of("3"), of("1"), (HELD, HELD), id="nobody, if others ask for enough less"),
        pytest.param(of("3"), of("3"), (HELD, LOST), id="of two who ask for more the newer one"),
        pytest.param({"ttl": "1h"}, of("4"), (HELD, LOST), id="the newer one, if it is the one"),
    ],
)
@virtual
async def test_who_asks_for_more_than_there_is_gives_way(
    older: dict[str, Any], newer: dict[str, Any], outcome: tuple[Any, Any]
) -> None:
    """On a node of 4 cores, seats of 1 and 2 that are changed while no scheduler looks."""
    async with world(nodes=1) as it:
        auditor = Auditor(it.api, it.clock)
        async with scheduler(auditor, it.clock, settings=ALL):
            for name, cpu in (("older", "1"), ("newer", "2")):
                await it.create(kinds.RESERVATION, reservation(name, 1, cpu))
                await pass_time(2)
        for name, change in (("older", older), ("newer", newer)):
            await it.patch(kinds.RESERVATION, name, {"spec": change})
            await auditor.look()
        async with scheduler(auditor, it.clock, settings=ALL):
            await pass_time(5)
            assert (await phase(it, "older"), await phase(it, "newer")) == outcome
        assert auditor.faults == []


@virtual
async def test_who_waits_for_a_loss_that_cannot_be_written_does_not_insist() -> None:
    async with world(nodes=1) as it:
        strict = Strict(it.api)
        async with scheduler(it.api, it.clock, settings=ALL):
            for name in ("older", "newer"):
                await it.create(kinds.RESERVATION, reservation(name, 1, "1"))
                await pass_time(2)
        for name in ("older", "newer"):
            await it.patch(kinds.RESERVATION, name, {"spec": of("3")})
        async with scheduler(strict, it.clock, settings=ALL):
            await pass_time(60)
            assert 5 < strict.refused < 25
            strict.refuses = False
            await pass_time(20)
            assert (await phase(it, "older"), await phase(it, "newer")) == (HELD, LOST)


class Strict:
    """An Api that lets nobody write the status of the newer one for a while."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.watch = api.watch
        self.refuses = True
        self.refused = 0

    async def call(self, request: Request) -> Response:
        if self.refuses and (request.name, request.subresource) == ("newer", "status"):
            self.refused += 1
            raise Forbidden.because(403, "Forbidden", "no rights")
        return await self._api.call(request)


@virtual
async def test_a_pod_on_its_way_into_a_seat_that_grows_costs_nobody_theirs() -> None:
    barrier = Barrier()
    async with world(nodes=1) as it:
        auditor = Auditor(it.api, it.clock)
        async with scheduler(auditor, it.clock, barrier, settings=ALL):
            await it.create(kinds.RESERVATION, reservation("older", 1, "1"))
            await pass_time(2)
            await it.create(kinds.RESERVATION, reservation("newer", 1, "3", owners=[]))
            await pass_time(2)
            await it.create(kinds.POD, pod("a", "1"))
            await pass_time(2)
            await it.patch(kinds.RESERVATION, "older", {"spec": of("1500m")})
            await auditor.look()
            await pass_time(5)
            barrier.lifted = True
            await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"a": "b"}}})  # news, for which it waits
            await pass_time(15)
            assert (await phase(it, "older"), await phase(it, "newer")) == (LOST, HELD)
        assert auditor.faults == []
