"""A template with limits only holds what its pods will request, because the API server defaults requests to limits."""

from __future__ import annotations

import pytest

from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import (
    new_reservation,
    pass_time_and_check_room,
    phase_and_reason,
    read_reservation,
    seats_by_index,
)
from tests.control.scheduler_cluster import nodes_by_pod, scheduled_cluster
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
async def test_template_with_limits_only_holds_room_for_them(spec: Document, policy: str) -> None:
    async with scheduled_cluster(nodes=2) as it:
        await it.patch(kinds.NODE, "n2", {"spec": {"unschedulable": True}}, None)
        made = new_reservation(replicas=1, matchPolicy=policy)
        made["spec"]["tasks"][0]["template"]["spec"] = spec
        await it.create(kinds.RESERVATION, made)
        await pass_time_and_check_room(it)
        found = (await read_reservation(it)).status
        assert (await phase_and_reason(it), await seats_by_index(it)) == (("Available", "Reserved"), {0: ("n1", None)})
        assert found.allocatable == (found.observed_requests or {})["web"] == _AMOUNTS
        await it.create(kinds.POD, pod("other", "2", app="other"))
        await pass_time_and_check_room(it)
        assert await nodes_by_pod(it) == {"other": None}
        await it.create(kinds.POD, {**pod("web"), "spec": {**spec, "schedulerName": "restow"}})
        await pass_time_and_check_room(it)
        assert (await phase_and_reason(it), await seats_by_index(it)) == (("Succeeded", "Consumed"), {0: ("n1", "web")})
