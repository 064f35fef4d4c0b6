"""What the scheduler learns, and what it does about objects that it cannot make anything of."""

from __future__ import annotations

import pytest

from restow.model import kinds
from restow.model.cluster import Snapshot
from restow.model.objects import Node
from tests.control.stage import places, stage
from tests.sim.stage import node, pass_time, pod, virtual


@pytest.mark.parametrize("error", [RuntimeError, KeyError, RecursionError])
def test_one_object_that_cannot_be_read_stops_nobody_and_is_told_once(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    apply_node = Snapshot.apply_node

    def trips(snapshot: Snapshot, one: Node) -> None:
        if one.metadata.name == "odd":
            raise error("what is that?")
        apply_node(snapshot, one)

    monkeypatch.setattr(Snapshot, "apply_node", trips)

    @virtual
    async def story() -> None:
        async with stage(nodes=0) as it:
            await it.create(kinds.NODE, node("odd"))
            await pass_time(1)
            for number in range(3):
                await it.patch(kinds.NODE, "odd", {"metadata": {"labels": {"again": str(number)}}})
            await it.create(kinds.NODE, node("even"))
            await it.create(kinds.POD, pod("a"))
            await pass_time(5)
            assert await places(it) == {"a": "even"}

    story()
    told = [one for one in caplog.records if one.message == "object cannot be read"]
    assert [one.__dict__["object"] for one in told] == ["odd"]
