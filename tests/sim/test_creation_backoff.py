"""Controllers that lose their pods right after creating them: they go on, and virtual time passes."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document
from restow.ports import Api, Request, Response
from restow.sim.world.creation_backoff import FORGET, LONGEST, CreationBackoff
from tests.sim.simulated_cluster import (
    is_pod_ready,
    job,
    on_virtual_time,
    pass_time,
    simulated_cluster,
    template,
    workload,
)


def test_pauses_double_until_the_longest_and_are_forgotten() -> None:
    losses, now, pauses = CreationBackoff(), 0.0, []
    for _ in range(8):
        losses.record_loss("a", now)
        pauses.append(losses.seconds_left("a", now))
        now += pauses[-1]
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST, LONGEST]
    losses.record_loss("a", now + FORGET)
    assert losses.seconds_left("a", now + FORGET) == 1


def test_pods_lost_together_cost_their_creator_one_pause() -> None:
    losses = CreationBackoff()
    for moment in (0.0, 0.0, 0.5):
        losses.record_loss("a", moment)
    assert (losses.seconds_left("a", 0.5), losses.seconds_left("a", 1.0), losses.seconds_left("b", 0.0)) == (
        0.5,
        0.0,
        0.0,
    )


class Counter:
    """An Api that counts the pods created."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.watch = api.watch
        self.pods = 0

    async def call(self, request: Request) -> Response:
        self.pods += (request.verb, request.resource.plural, request.subresource) == ("create", "pods", None)
        return await self._api.call(request)


TAINTED = {"spec": {"taints": [{"key": "away", "effect": "NoExecute"}]}}
HOME = template(nodeName="n1")
HUGE = template("64", nodeName="n1", app="x")
TASK = job("x", backoffLimit=10_000)
TASK["spec"]["template"]["spec"]["nodeName"] = "n1"


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        pytest.param(kinds.REPLICA_SET, workload("x", 2, pods=HOME), id="ReplicaSet"),
        pytest.param(kinds.STATEFUL_SET, workload("x", 2, pods=HOME, serviceName="x"), id="StatefulSet"),
        pytest.param(
            kinds.STATEFUL_SET,
            workload("x", 2, pods=HOME, serviceName="x", podManagementPolicy="Parallel"),
            id="parallel StatefulSet",
        ),
        pytest.param(kinds.JOB, TASK, id="Job"),
        pytest.param(kinds.DAEMON_SET, workload("x", None, pods=HUGE), id="DaemonSet on a node without room"),
        pytest.param(kinds.REPLICA_SET, workload("x", 2, pods=HUGE), id="ReplicaSet on a node without room"),
    ],
)
def test_an_hour_of_losses_passes_with_few_pods(kind: kinds.Kind[Any], made: Document) -> None:
    @on_virtual_time
    async def story() -> None:
        counters: list[Counter] = []

        def around(api: Api) -> Counter:
            counters.append(Counter(api))
            return counters[-1]

        async with simulated_cluster(nodes=1, around=around) as it:
            if made["spec"]["template"] is not HUGE:
                await it.patch(kinds.NODE, "n1", TAINTED)
            await it.create(kind, made)
            await pass_time(3600)
            assert 50 < sum(each.pods for each in counters) < 200

    story()


@on_virtual_time
async def test_a_controller_that_pauses_recovers_when_the_taint_is_gone() -> None:
    async with simulated_cluster(nodes=1) as it:
        await it.patch(kinds.NODE, "n1", TAINTED)
        await it.create(kinds.REPLICA_SET, workload("x", 2, pods=HOME))
        await pass_time(600)
        await it.patch(kinds.NODE, "n1", {"spec": {"taints": None}})
        await pass_time(LONGEST + 5)
        assert [is_pod_ready(each) for each in await it.pods() if each.status.phase == "Running"] == [True, True]
