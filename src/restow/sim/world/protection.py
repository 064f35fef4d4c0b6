"""Claims and volumes that are in use stay until they are not, whoever deletes them.

The API server marks new ones with a finalizer, if it protects them at all. It is taken from a claim when no pod on a
node uses it any more, and from a volume when its claim is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.cluster.names import Key
from restow.model.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Kind
from restow.model.objects import PersistentVolume, PersistentVolumeClaim
from restow.model.pods import is_finished
from restow.sim.world.rule import Rule
from restow.sim.world.step import NOTHING, Patch, Step
from restow.sim.world.view import View

OF_CLAIMS = "kubernetes.io/pvc-protection"
OF_VOLUMES = "kubernetes.io/pv-protection"


class ClaimProtection(Rule):
    kind = PERSISTENT_VOLUME_CLAIM
    also = (POD,)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        pod = change.object
        if change.type != "DELETED" and not is_finished(pod):
            return ()
        claims = (volume.persistent_volume_claim for volume in pod.spec.volumes or ())
        return [(pod.metadata.namespace or "", claim.claim_name) for claim in claims if claim]

    def decide(self, key: Key, view: View) -> Step:
        claim = view.get(PERSISTENT_VOLUME_CLAIM, key)
        if claim is None or not _is_held(claim, OF_CLAIMS):
            return NOTHING
        used = any(pod.spec.node_name and not is_finished(pod) for pod in view.pods_using(*key))
        return NOTHING if used else _let_go(self.kind, claim, OF_CLAIMS)


class VolumeProtection(Rule):
    kind = PERSISTENT_VOLUME
    also = (PERSISTENT_VOLUME_CLAIM,)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        name = change.object.spec.volume_name
        return (("", name),) if name and change.type == "DELETED" else ()

    def decide(self, key: Key, view: View) -> Step:
        volume = view.get(PERSISTENT_VOLUME, key)
        if volume is None or not _is_held(volume, OF_VOLUMES):
            return NOTHING
        reference = volume.spec.claim_ref
        claim = (
            view.get(PERSISTENT_VOLUME_CLAIM, (reference.namespace or "", reference.name or "")) if reference else None
        )
        used = claim is not None and reference is not None and claim.metadata.uid == reference.uid
        return NOTHING if used else _let_go(self.kind, volume, OF_VOLUMES)


def _is_held(item: PersistentVolumeClaim | PersistentVolume, finalizer: str) -> bool:
    return item.metadata.deletion_timestamp is not None and finalizer in (item.metadata.finalizers or ())


def _let_go(kind: Kind[Any], item: PersistentVolumeClaim | PersistentVolume, finalizer: str) -> Step:
    meta = item.metadata
    left = [one for one in meta.finalizers or () if one != finalizer]
    changes = {"metadata": {"uid": meta.uid, "finalizers": left}}
    patch = Patch(kind=kind, namespace=meta.namespace, name=meta.name, changes=changes, version=meta.resource_version)
    return Step((patch,))
