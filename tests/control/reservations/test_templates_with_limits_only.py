"""A template that only says what its pods are limited to holds what they will request: the API server makes no
difference."""

from __future__ import annotations

import pytest

from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import phase, read, reservation, seats, settled
from tests.control.scheduler_cluster import places, stage
from tests.sim.simulated_cluster import on_virtual_time, pod

_AMOUNTS = {"cpu": "3", "memory": "1Gi"}
_PLAIN: Document = {"name": "main", "image": "app:1"}


@pytest.mark.parametrize("policy", ["Fits", "Template"])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [{**_PLAIN, "resources": {"limits": _AMOUNTS}}]}, id="container"),
        pytest.param(
            {"containers": [_PLAIN], "initContainers": [{**_PLAIN, "name": "i", "resources": {"limits": _AMOUNTS}}]},
            id="init container",
        ),
        pytest.param({"containers": [_PLAIN], "resources": {"limits": _AMOUNTS}}, id="pod as a whole"),
    ],
)
@on_virtual_time
async def test_limits_hold_room_for_the_pods_that_will_have_them(spec: Document, policy: str) -> None:
    async with stage(nodes=2) as it:
        await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": True}}, None)
        made = reservation(replicas=1, matchPolicy=policy)
        made["spec"]["tasks"][0]["template"]["spec"] = spec
        await it.create(kinds.RESERVATION, made)
        await settled(it)
        found = (await read(it)).status
        assert (await phase(it), await seats(it)) == (("Available", "Reserved"), {0: ("n1", None)})
        assert found.allocatable == (found.observed_requests or {})["web"] == _AMOUNTS
        await it.create(kinds.POD, pod("other", "2", app="other"))
        await settled(it)
        assert await places(it) == {"other": None}
        await it.create(kinds.POD, {**pod("web"), "spec": {**spec, "schedulerName": "restow"}})
        await settled(it)
        assert (await phase(it), await seats(it)) == (("Succeeded", "Consumed"), {0: ("n1", "web")})
