"""The work queue: one key once, one worker per key, later and later after failures."""

from __future__ import annotations

import asyncio

import pytest

from restow.client.workqueue import QueueClosed, WorkQueue
from restow.sim.loop import run_virtual


async def drain(queue: WorkQueue[str]) -> list[str]:
    return [await queue.get() for _ in range(len(queue))]


async def test_key_is_queued_once_in_order() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abacb":
        queue.add(key)
    assert await drain(queue) == ["a", "b", "c"]


async def test_key_added_while_processing_comes_back_after_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    async with queue.next() as key:
        queue.add(key)
        queue.add(key)
        assert len(queue) == 0
    assert await drain(queue) == ["a"]


async def test_key_is_done_if_its_work_fails() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    with pytest.raises(ZeroDivisionError):
        async with queue.next():
            raise ZeroDivisionError
    queue.add("a")
    assert await drain(queue) == ["a"]


def test_earliest_delay_wins() -> None:
    async def story() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("late", 9)
        queue.add_after("twice", 5)
        queue.add_after("twice", 2)
        queue.add_after("twice", 7)
        queue.add_after("now", 0)
        seen = []
        for _ in range(3):
            async with queue.next() as key:
                seen.append((loop.time(), key))
        return seen

    assert run_virtual(story()) == [(0.0, "now"), (2.0, "twice"), (9.0, "late")]


def test_retry_delay_grows_until_forget() -> None:
    async def story() -> list[float]:
        queue: WorkQueue[str] = WorkQueue(base=1, cap=5)
        delays = [queue.retry("a") for _ in range(5)]
        assert queue.failures("a") == 5
        queue.forget("a")
        return [*delays, queue.retry("a")]

    assert run_virtual(story()) == [1, 2, 4, 5, 5, 1]


async def test_closed_queue_is_drained_and_then_raises() -> None:
    queue: WorkQueue[str] = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add_after("never", 0.001)
    queue.close()
    queue.add("refused")
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert [r if isinstance(r, str) else type(r) for r in results] == ["a", QueueClosed, QueueClosed]


async def test_cancelled_worker_loses_no_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    async with asyncio.timeout(1):
        assert await queue.get() == "a"
