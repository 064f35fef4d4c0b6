"""Filters are asked again about waiting reservations: about few seats every second, about many less often."""

from __future__ import annotations

from typing import Any

import pytest

from restow.control.scheduler import SchedulerSettings
from restow.model import kinds
from restow.scheduling.seat_checks import seat_health
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason
from tests.control.scheduler_cluster import scheduled_cluster
from tests.sim.simulated_cluster import node, on_virtual_time, pass_time


@pytest.mark.parametrize(("seats", "asked"), [pytest.param(2, 20, id="few"), pytest.param(600, 5, id="many")])
@on_virtual_time
async def test_waiting_reservation_with_many_seats_is_checked_less_often(seats: int, asked: int) -> None:
    checks, blocked = 0, seat_health.refused_seats

    def count_and_ask(*given: Any) -> Any:
        nonlocal checks
        checks += 1
        return blocked(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(seat_health, "refused_seats", count_and_ask)
        async with scheduled_cluster(nodes=0, settings=SchedulerSettings(namespace_share=100)) as it:
            await it.create(kinds.NODE, node("n1", memory="60Gi", pods="1000"))
            await it.create(kinds.RESERVATION, new_reservation(replicas=seats, cpu="1m"))
            await pass_time(3)
            await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": True}}, None)
            await pass_time(3)
            assert await phase_and_reason(it) == ("Waiting", "NodeUnfit")
            checks = 0
            await pass_time(20)
            assert checks == asked
            await it.patch(kinds.NODE, "n1", {"spec": {"unschedulable": False}}, None)
            await pass_time(0.5)
            assert await phase_and_reason(it) == ("Available", "Reserved")
