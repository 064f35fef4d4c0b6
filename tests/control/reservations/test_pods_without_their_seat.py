"""Pods that do not get a seat that they could have: an Event says why, and they are scheduled like any other pod."""

from __future__ import annotations

from typing import Any

import pytest

from restow.model import kinds
from restow.model.objects import Document
from tests.control.reservations.reservation_cluster import new_reservation, seats_by_index
from tests.control.scheduler_cluster import events_with_reason, nodes_by_pod, scheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, template


@on_virtual_time
async def test_pod_that_differs_from_the_template_is_warned_and_scheduled() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=1, matchPolicy="Template"))
        await pass_time(3)
        await it.create(kinds.POD, pod("a", "500m"))
        await pass_time(3)
        [(name, told)] = await events_with_reason(it, "ReservationSpecNotMatch")
        assert name == "a" and told.endswith(
            "differs from task web in containers (main: requests); it is scheduled without a reservation"
        )
        assert (await nodes_by_pod(it))["a"] is not None
        assert [consumer for _, consumer in (await seats_by_index(it)).values()] == [None]


@on_virtual_time
async def test_pod_that_comes_before_its_reservation_is_placed_is_warned_and_scheduled() -> None:
    async with scheduled_cluster(nodes=2) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=9))
        await pass_time(3)
        await it.create(kinds.POD, pod("a"))
        await pass_time(3)
        [(name, told)] = await events_with_reason(it, "ReservationNotUsed")
        assert name == "a" and told.startswith("reservation default/r is not available: it is Pending: ")
        assert (await nodes_by_pod(it))["a"] is not None


@on_virtual_time
async def test_seat_on_a_node_that_became_unfit_is_skipped_with_a_warning() -> None:
    async with scheduled_cluster(nodes=3) as it:
        await it.create(kinds.RESERVATION, new_reservation(replicas=2, minAvailable=1))
        await pass_time(3)
        held = {index: where for index, (where, _) in (await seats_by_index(it)).items()}
        for where in set(held.values()):
            taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
            await it.patch(kinds.NODE, where, {"spec": {"taints": [taint]}})
        await it.create(kinds.POD, pod("a"))
        await pass_time(20)
        assert (await nodes_by_pod(it))["a"] not in (None, *held.values())
        assert [name for name, told in await events_with_reason(it, "NodeUnfit") if "gpu=yes:NoSchedule" in told] == [
            "r"
        ]
        assert {consumer for _, consumer in (await seats_by_index(it)).values()} == {None}


@on_virtual_time
async def test_pod_naming_a_reservation_of_other_owners_waits_and_says_why() -> None:
    async with scheduled_cluster(nodes=1) as it:
        await it.create(
            kinds.RESERVATION, new_reservation(replicas=1, owners=[{"object": {"kind": "Pod", "name": "b"}}])
        )
        await pass_time(3)
        made = pod("a")
        made["metadata"]["annotations"] = {"restow.sh/use-reservation": "r"}
        await it.create(kinds.POD, made)
        await pass_time(3)
        assert await nodes_by_pod(it) == {"a": None}
        told = [("a", "reservation default/r is not for pod default/a: its owner does not match")]
        assert (
            await events_with_reason(it, "FailedScheduling")
            == await events_with_reason(it, "ReservationOwnerNotMatch")
            == told
        )


# --- volumes ----------------------------------------------------------------------------------------------------------


def disk(name: str, where: str) -> Document:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [where]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "local": {"path": f"/disks/{name}"},
    }
    return {"metadata": {"name": name}, "spec": spec}


def claim(name: str) -> Document:
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def mount(name: str) -> list[Document]:
    return [{"name": "d", "persistentVolumeClaim": {"claimName": name}}]


@pytest.mark.parametrize("elsewhere", [True, False], ids=["another node has a volume", "no other node has one"])
@on_virtual_time
async def test_second_of_two_seats_that_count_on_one_volume_is_skipped(elsewhere: bool) -> None:
    """A seat holds room, not volumes. The second pod finds the volume taken: it goes where there is another, or
    waits and says what is missing; it is never bound without its volume."""
    async with scheduled_cluster(nodes=2) as it:
        local = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        await it.create(kinds.STORAGE_CLASS, {"metadata": {"name": "local"}, **local})
        await it.create(kinds.PERSISTENT_VOLUME, disk("one", "n1"))
        for name in ("a", "b"):
            await it.create(kinds.PERSISTENT_VOLUME_CLAIM, claim(name))
            made = new_reservation(f"for-{name}", 1, owners=[{"object": {"kind": "Pod", "name": name}}])
            made["spec"]["tasks"][0]["template"] = template("1", volumes=mount(name))
            await it.create(kinds.RESERVATION, made)
        await pass_time(5)
        assert [(await seats_by_index(it, f"for-{name}"))[0][0] for name in ("a", "b")] == ["n1", "n1"]
        if elsewhere:
            await it.create(kinds.PERSISTENT_VOLUME, disk("two", "n2"))
        for name in ("a", "b"):
            await it.create(kinds.POD, pod(name, volumes=mount(name)))
            await pass_time(15)
        assert await nodes_by_pod(it) == {"a": "n1", "b": "n2" if elsewhere else None}
        assert [(await seats_by_index(it, f"for-{name}"))[0][1] for name in ("a", "b")] == ["a", None]
        if not elsewhere:
            told = [message for name, message in await events_with_reason(it, "FailedScheduling") if name == "b"]
            assert any("didn't find available persistent volumes to bind" in message for message in told), told
