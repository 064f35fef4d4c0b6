"""The stand-in scheduler: where pods go, and what those are told that go nowhere."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from tests.sim.stage import Document, node, pass_time, pod, reason, stage, virtual

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
ON_SSD = {"nodeSelector": {"disk": "ssd"}}
TOLERANT = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
NOT_N1 = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1"]}]}
                ]
            }
        }
    }
}


@pytest.mark.parametrize(
    ("cpu", "spec", "changes", "where"),
    [
        pytest.param("1", {}, {}, "n1", id="the first by name"),
        pytest.param("1", NOT_N1, {}, "n2", id="the first that its affinity allows"),
        pytest.param("1", ON_SSD, {"n3": {"metadata": {"labels": {"disk": "ssd"}}}}, "n3", id="the only one selected"),
        pytest.param("1", {}, {"n1": {"spec": {"taints": [TAINT]}}}, "n2", id="past a taint"),
        pytest.param("1", TOLERANT, {"n1": {"spec": {"taints": [TAINT]}}}, "n1", id="onto a taint it tolerates"),
        pytest.param("1", {}, {"n1": {"spec": {"unschedulable": True}}}, "n2", id="past a cordoned node"),
        pytest.param("5", {}, {}, None, id="nowhere, being too large"),
        pytest.param("1", {"schedulerName": "other"}, {}, None, id="nowhere, being somebody else's"),
        pytest.param("1", {"schedulingGates": [{"name": "wait"}]}, {}, None, id="nowhere, being gated"),
    ],
)
def test_a_pod_goes_to(cpu: str, spec: Document, changes: dict[str, Document], where: str | None) -> None:
    @virtual
    async def story() -> None:
        async with stage(nodes=3) as it:
            for name, change in changes.items():
                await it.patch(kinds.NODE, name, change)
            await it.create(kinds.POD, pod("a", cpu, **spec))
            await pass_time(5)
            [a] = await it.pods()
            assert a.spec.node_name == where

    story()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        pytest.param(
            {},
            "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, 2 Insufficient cpu.",
            id="too large, and tainted away",
        ),
        pytest.param(
            {**TOLERANT, **ON_SSD},
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
            id="no node is selected",
        ),
    ],
)
def test_a_pod_that_fits_nowhere_is_told_why(spec: dict[str, Any], sentence: str) -> None:
    @virtual
    async def story() -> None:
        async with stage(nodes=3) as it:
            await it.patch(kinds.NODE, "n1", {"spec": {"taints": [TAINT]}})
            await it.create(kinds.POD, pod("a", "5", **spec))
            await pass_time(5)
            [a] = await it.pods()
            assert reason(a, "PodScheduled") == sentence
            events = (await it.client.list(kinds.EVENT, "default")).items
            assert [(each.reason, each.message) for each in events] == [("FailedScheduling", sentence)]

    story()


@virtual
async def test_waiting_pods_follow_room_that_appears() -> None:
    async with stage(nodes=1) as it:
        for name in ("a", "b", "c"):
            await it.create(kinds.POD, pod(name, "3"))
        await pass_time(5)
        assert sorted(each.spec.node_name or "" for each in await it.pods()) == ["", "", "n1"]
        await it.create(kinds.NODE, node("n2"))
        await pass_time(5)
        assert sorted(each.spec.node_name or "" for each in await it.pods()) == ["", "n1", "n2"]
        await it.delete(kinds.POD, next(each.metadata.name for each in await it.pods() if each.spec.node_name == "n1"))
        await pass_time(10)
        assert sorted(each.spec.node_name or "" for each in await it.pods()) == ["n1", "n2"]
        reasons = {each.reason for each in (await it.client.list(kinds.EVENT, "default")).items}
        assert reasons == {"FailedScheduling", "Scheduled"}


@virtual
async def test_nodes_are_never_over_committed() -> None:
    async with stage(nodes=2) as it:
        for number in range(20):
            await it.create(kinds.POD, pod(f"p{number}", "700m"))
        await pass_time(10)
        placed = [each.spec.node_name for each in await it.pods() if each.spec.node_name]
        assert (placed.count("n1"), placed.count("n2")) == (5, 5)
        assert {each.status.phase for each in await it.pods()} == {"Pending", "Running"}


@virtual
async def test_host_ports_are_given_once() -> None:
    async with stage(nodes=1) as it:
        for name in ("a", "b"):
            made = pod(name)
            made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
            await it.create(kinds.POD, made)
        await pass_time(5)
        assert sorted(each.spec.node_name or "" for each in await it.pods()) == ["", "n1"]
