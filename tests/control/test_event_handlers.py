"""What the event handlers of the scheduler take in, and how they treat unreadable objects."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Document, Node
from restow.model.snapshot import Snapshot
from tests.control.reservations.reservation_cluster import new_reservation, seats_by_index
from tests.control.scheduler_cluster import nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import job, node, on_virtual_time, pass_time, pod, template, workload


@pytest.mark.parametrize("error", [RuntimeError, KeyError, RecursionError])
def test_unreadable_object_is_logged_once_and_other_objects_are_handled(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    apply_node = Snapshot.apply_node

    def trips(snapshot: Snapshot, one: Node) -> None:
        if one.metadata.name == "odd":
            raise error("what is that?")
        apply_node(snapshot, one)

    monkeypatch.setattr(Snapshot, "apply_node", trips)

    @on_virtual_time
    async def story() -> None:
        async with scheduled_cluster(nodes=0) as it:
            await it.create(kinds.NODE, node("odd"))
            await pass_time(1)
            for number in range(3):
                await it.patch(kinds.NODE, "odd", {"metadata": {"labels": {"again": str(number)}}})
            await it.create(kinds.NODE, node("even"))
            await it.create(kinds.POD, pod("a"))
            await pass_time(5)
            assert await nodes_by_pod(it) == {"a": "even"}

    story()
    told = [one for one in caplog.records if one.message == "object cannot be read"]
    assert [one.__dict__["object"] for one in told] == ["odd"]


APP = {"apiVersion": "example.com/v1", "kind": "App", "name": "shop", "uid": "uid-shop", "controller": True}


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (kinds.DEPLOYMENT, workload("w", 1, pods=template("1"))),
        (kinds.REPLICA_SET, workload("w", 1, pods=template("1"))),
        (kinds.STATEFUL_SET, workload("w", 1, pods=template("1"), serviceName="w")),
        (kinds.DAEMON_SET, workload("w", None, pods=template("1"))),
        (kinds.JOB, job("w", run=600)),
    ],
    ids=lambda one: one.kind if isinstance(one, Kind) else "",
)
@on_virtual_time
async def test_reservation_matches_the_owner_of_the_owner_of_a_pod(kind: Kind[Any], made: Document) -> None:
    async with scheduled_cluster(nodes=1) as it:
        app = {"kind": "App", "name": "shop"}
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, cpu="1", owners=[{"controller": app}]))
        await pass_time(3)
        await it.create(kind, {**made, "metadata": {**made["metadata"], "ownerReferences": [APP]}})
        await pass_time(10)
        [one] = await it.pods()
        assert (await seats_by_index(it))[0] == ("n1", one.metadata.name)
