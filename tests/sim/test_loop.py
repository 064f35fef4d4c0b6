"""The laws of virtual time."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.sim.loop import EPOCH, Deadlock, VirtualClock, run_virtual
from tests.sim.simulated_cluster import on_virtual_time

delays = st.floats(min_value=0, max_value=1e6, allow_nan=False)


def test_a_month_of_virtual_time_passes_at_once() -> None:
    async def month() -> float:
        clock = VirtualClock()
        await asyncio.sleep(30 * 86400)
        return clock.now()

    started = time.perf_counter()
    assert run_virtual(month(), start=1000.0) == 1000.0 + 30 * 86400
    assert time.perf_counter() - started < 5


@given(st.lists(delays, min_size=1, max_size=20))
def test_sleepers_wake_in_the_order_of_their_delays_and_on_time(waits: list[float]) -> None:
    async def sleep(delay: float, woken: list[tuple[float, float]]) -> None:
        await asyncio.sleep(delay)
        woken.append((delay, asyncio.get_running_loop().time()))

    async def main() -> list[tuple[float, float]]:
        woken: list[tuple[float, float]] = []
        await asyncio.gather(*(sleep(delay, woken) for delay in waits))
        return woken

    woken = run_virtual(main())
    assert [delay for delay, _ in woken] == sorted(waits)
    assert all(at == pytest.approx(delay, abs=1e-6) for delay, at in woken)


@on_virtual_time
async def test_time_stands_still_while_anything_is_ready() -> None:
    timer = asyncio.create_task(asyncio.sleep(0.001))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not timer.done()
    assert VirtualClock().now() == EPOCH


@on_virtual_time
async def test_timeouts_expire_on_virtual_time() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()
    assert VirtualClock().now() == EPOCH + 3600


def test_deadlock_names_the_waiting_tasks_and_their_lines() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(waits_for_ever(), name="the lonely one")

    with pytest.raises(Deadlock, match=r"the lonely one in .*waits_for_ever"):
        run_virtual(main())


def test_threads_can_still_wake_the_loop() -> None:
    async def main() -> int:
        keep_alive = asyncio.create_task(asyncio.sleep(1e9))
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon_threadsafe(future.set_result, 7)
        result: int = await future
        keep_alive.cancel()
        return result

    assert run_virtual(main()) == 7


def test_tasks_left_behind_are_cancelled() -> None:
    ended: list[str] = []

    async def left() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append("cancelled")

    async def main() -> None:
        task = asyncio.create_task(left())
        await asyncio.sleep(0)
        assert not task.done()

    run_virtual(main())
    assert ended == ["cancelled"]


async def test_the_virtual_clock_refuses_an_ordinary_loop() -> None:
    with pytest.raises(TypeError, match="run_virtual"):
        VirtualClock()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_virtual_timers_never_fire_early(moments: list[float]) -> None:
    """Not even by a rounding error: a task that then sleeps for the rest would wake up at once, again and again."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        early: list[float] = []

        def note(moment: float) -> None:
            if loop.time() < moment:
                early.append(moment)

        for moment in moments:
            loop.call_at(moment, note, moment)
        await asyncio.sleep(max(moments) + 1)
        assert early == []

    run_virtual(story())
