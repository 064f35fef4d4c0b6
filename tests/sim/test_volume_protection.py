"""Claims and volumes that are deleted while they are in use."""

from __future__ import annotations

from typing import Any

from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Document
from restow.sim.world import Settings
from tests.sim.simulated_cluster import on_virtual_time, pass_time, pod, simulated_cluster

CLASS = {"metadata": {"name": "fast"}, "provisioner": "sim/disk", "volumeBindingMode": "Immediate"}
CLAIM: Document = {
    "metadata": {"name": "data", "namespace": "default", "finalizers": ["kubernetes.io/pvc-protection"]},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


CLAIM_AND_VOLUME: tuple[Kind[Any], ...] = (kinds.PERSISTENT_VOLUME_CLAIM, kinds.PERSISTENT_VOLUME)


@on_virtual_time
async def test_claim_stays_until_its_pod_is_gone_and_its_volume_until_it_is_released() -> None:
    async with simulated_cluster(settings=Settings(protect_volumes=True)) as it:
        await it.create(kinds.STORAGE_CLASS, CLASS)
        await it.create(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM)
        await it.create(kinds.POD, pod("a", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]))
        await pass_time(10)
        [volume] = (await it.client.list(kinds.PERSISTENT_VOLUME)).items
        kept = {"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}}
        await it.patch(kinds.PERSISTENT_VOLUME, volume.metadata.name, kept)
        await it.delete(kinds.PERSISTENT_VOLUME_CLAIM, "data")
        await it.delete(kinds.PERSISTENT_VOLUME, volume.metadata.name)
        await pass_time(30)
        for kind in CLAIM_AND_VOLUME:
            assert [one.metadata.deletion_timestamp is not None for one in (await it.client.list(kind)).items] == [True]
        await it.delete(kinds.POD, "a")
        await pass_time(30)
        for kind in CLAIM_AND_VOLUME:
            assert (await it.client.list(kind)).items == []
