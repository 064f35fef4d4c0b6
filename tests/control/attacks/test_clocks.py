"""Wall clocks that are set back while a component waits."""

from __future__ import annotations

from restow.model import kinds
from restow.ports import Forbidden, Request
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason
from tests.control.scheduler_cluster import FixedErrorApi, SetBackClock, unscheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, running_scheduler

NOT_TODAY = Forbidden.because(403, "Forbidden", "not today")


def writes_a_status(request: Request) -> bool:
    return (request.resource.plural, request.subresource) == ("reservations", "status")


@on_virtual_time
async def test_unwritten_seats_are_placed_again_after_the_clock_is_set_back() -> None:
    async with unscheduled_cluster(nodes=2) as it:
        api, clock = FixedErrorApi(it.api, writes_a_status, NOT_TODAY), SetBackClock(it.clock)
        async with running_scheduler(api, clock):
            await it.create(kinds.RESERVATION, new_reservation())
            await pass_time(20)
            clock.set_back_by = 3600.0
            api.error = None
            await pass_time(30)
            assert await phase_and_reason(it) == ("Available", "Reserved")
