"""Protection of claims and volumes in use (pvc-protection and pv-protection of kube-controller-manager).

The API server sets a finalizer on new ones, if it protects them at all. It is removed from a deleted claim when no pod
on a node uses it any more, and from a deleted volume when its claim is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Kind
from restow.model.object_key import Key
from restow.model.objects import PersistentVolume, PersistentVolumeClaim
from restow.model.pods import is_finished
from restow.sim.world.rule import Rule
from restow.sim.world.step import NOTHING, Patch, Step
from restow.sim.world.view import View

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


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
        if claim is None or not _is_kept_by(claim, CLAIM_FINALIZER):
            return NOTHING
        used = any(pod.spec.node_name and not is_finished(pod) for pod in view.pods_using(*key))
        return NOTHING if used else _remove_finalizer(self.kind, claim, CLAIM_FINALIZER)


class VolumeProtection(Rule):
    kind = PERSISTENT_VOLUME
    also = (PERSISTENT_VOLUME_CLAIM,)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        name = change.object.spec.volume_name
        return (("", name),) if name and change.type == "DELETED" else ()

    def decide(self, key: Key, view: View) -> Step:
        volume = view.get(PERSISTENT_VOLUME, key)
        if volume is None or not _is_kept_by(volume, VOLUME_FINALIZER):
            return NOTHING
        reference = volume.spec.claim_ref
        claim = (
            view.get(PERSISTENT_VOLUME_CLAIM, (reference.namespace or "", reference.name or "")) if reference else None
        )
        used = claim is not None and reference is not None and claim.metadata.uid == reference.uid
        return NOTHING if used else _remove_finalizer(self.kind, volume, VOLUME_FINALIZER)


def _is_kept_by(item: PersistentVolumeClaim | PersistentVolume, finalizer: str) -> bool:
    return item.metadata.deletion_timestamp is not None and finalizer in (item.metadata.finalizers or ())


def _remove_finalizer(kind: Kind[Any], item: PersistentVolumeClaim | PersistentVolume, finalizer: str) -> Step:
    meta = item.metadata
    left = [each for each in meta.finalizers or () if each != finalizer]
    changes = {"metadata": {"uid": meta.uid, "finalizers": left}}
    patch = Patch(kind=kind, namespace=meta.namespace, name=meta.name, changes=changes, version=meta.resource_version)
    return Step((patch,))
