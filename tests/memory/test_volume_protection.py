"""Claims and volumes get the finalizers that keep them while they are in use, where that is asked for."""

from __future__ import annotations

import pytest

from restow.adapters.memory import ServerSettings
from tests.memory.cluster import Cluster

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "finalizers": ["example.com/mine"]},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.mark.parametrize(
    ("protect", "more"), [(True, ["kubernetes.io/pvc-protection"]), (False, [])], ids=["protected", "not protected"]
)
async def test_a_new_claim_is_protected_if_asked_for(protect: bool, more: list[str]) -> None:
    cluster = Cluster(ServerSettings(protect_volumes=protect))
    created = await cluster.create("persistentvolumeclaims", CLAIM)
    assert created["metadata"]["finalizers"] == ["example.com/mine", *more]
