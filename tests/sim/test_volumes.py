"""Claims, and the volumes that they get."""

from __future__ import annotations

from restow.model import kinds
from restow.model.objects import Document
from tests.sim.simulated_cluster import (
    is_pod_ready,
    new_claim,
    on_virtual_time,
    pass_time,
    pod,
    simulated_cluster,
    storage_class,
)


def _with_claim(name: str, claim: str) -> Document:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])


@on_virtual_time
async def test_immediate_claim_gets_a_volume_at_once_and_releases_it() -> None:
    async with simulated_cluster() as it:
        await it.create(kinds.STORAGE_CLASS, storage_class("fast", "Immediate"))
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, new_claim("data"))
        await pass_time(2)
        claim = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        volume = await it.document(kinds.PERSISTENT_VOLUME, claim["spec"]["volumeName"])
        assert (claim["status"]["phase"], volume["status"]["phase"]) == ("Bound", "Bound")
        assert "pv.kubernetes.io/bind-completed" in claim["metadata"]["annotations"]
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] == "sim/disk"
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        await it.delete(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        await pass_time(5)
        assert (await it.client.list(kinds.PERSISTENT_VOLUME)).items == []


@on_virtual_time
async def test_a_claim_that_waits_for_its_pod_gets_a_volume_in_the_pods_zone() -> None:
    async with simulated_cluster(nodes=1) as it:
        await it.patch(kinds.NODE, "n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}})
        await it.create(kinds.STORAGE_CLASS, storage_class("fast", "WaitForFirstConsumer"))
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, new_claim("data"))
        await pass_time(10)
        assert (await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data"))["status"]["phase"] == "Pending"
        await it.create(kinds.POD, _with_claim("a", "data"))
        await pass_time(10)
        claim = await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        assert claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n1"
        [volume] = (await it.client.list(kinds.PERSISTENT_VOLUME)).items
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
        document = await it.document(kinds.PERSISTENT_VOLUME, volume.metadata.name)
        terms = document["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [zone]}]
        assert is_pod_ready((await it.pods())[0])


@on_virtual_time
async def test_a_static_volume_is_matched_smallest_first() -> None:
    async with simulated_cluster() as it:
        for name, size in (("large", "5Gi"), ("small", "2Gi"), ("tiny", "10Mi")):
            spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual"}
            spec |= {"hostPath": {"path": "/data"}, "persistentVolumeReclaimPolicy": "Retain"}
            await it.create(kinds.PERSISTENT_VOLUME, {"metadata": {"name": name}, "spec": spec})
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, new_claim("data", "manual"))
        await pass_time(2)
        assert (await it.document(kinds.PERSISTENT_VOLUME_CLAIM, "data"))["spec"]["volumeName"] == "small"
        await it.delete(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        await pass_time(5)
        assert (await it.document(kinds.PERSISTENT_VOLUME, "small"))["status"]["phase"] == "Released"
