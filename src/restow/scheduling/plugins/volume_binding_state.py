"""Whether the volumes that were written for a pod are bound by now, and whether they ever will be.

Goes in: what was written, and the snapshot as events have changed it since. Comes out: SUCCESS when every claim is
bound, WAIT while that may still happen, ERROR when it will not:

    the pod or the node is gone                          a claim, or a volume that was taken, is gone
    a taken volume was let go again                      a volume cannot be reached from the node after all
    a claim lost its selected node: its volume could not be provisioned there

Only what the API shows counts here, never what is assumed. An object that still has the version the write was decided
on does not show the write yet, so it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from restow.model import volumes
from restow.model.cluster.storage import Storage, key_of
from restow.model.objects import Node, PersistentVolume, PersistentVolumeClaim
from restow.scheduling.framework import SUCCESS, Code, Cycle, Verdict, error, wait


class VolumeTaken(msgspec.Struct, frozen=True):
    """A volume that is to name a claim: as the API showed it, and as it shall be."""

    before: PersistentVolume
    after: PersistentVolume
    claim: PersistentVolumeClaim

    @property
    def is_news(self) -> bool:
        return self.after is not self.before


class ClaimToProvision(msgspec.Struct, frozen=True):
    """A claim that is to name the node its volume is made for: as the API showed it, and as it shall be."""

    before: PersistentVolumeClaim
    after: PersistentVolumeClaim

    @property
    def is_news(self) -> bool:
        return self.after is not self.before


class VolumeWrites(msgspec.Struct, frozen=True):
    """The volume writes for one pod."""

    takings: tuple[VolumeTaken, ...]
    provisions: tuple[ClaimToProvision, ...]


def binding_state(cycle: Cycle, name: str, written: VolumeWrites) -> Verdict:
    """Whether the writes for a pod on the node of this name have taken effect."""
    node, storage = cycle.snapshot.node(name), cycle.snapshot.storage
    if node is None:
        return _failed(f'failed to get node "{name}": node "{name}" not found')
    if cycle.pod.metadata.uid not in cycle.snapshot.pods.known:
        return _failed(f'pod does not exist any more: pod "{cycle.pod.metadata.name}" not found')
    verdicts = [
        *(_taken(taking, node, storage) for taking in written.takings),
        *(_made(provision, node, storage) for provision in written.provisions),
    ]
    return next(_worst_first(verdicts), SUCCESS)


def _worst_first(verdicts: list[Verdict]) -> Iterator[Verdict]:
    for code in (Code.ERROR, Code.WAIT):
        yield from (verdict for verdict in verdicts if verdict.code is code)


def _taken(taking: VolumeTaken, node: Node, storage: Storage) -> Verdict:
    name = taking.after.metadata.name
    volume, claim = storage.volumes.shown(f"/{name}"), storage.claims.shown(key_of(taking.claim))
    if volume is None:
        return _failed(f'failed to check binding: persistentvolume "{name}" not found')
    if claim is None:
        return _failed(f'failed to check binding: persistentvolumeclaim "{taking.claim.metadata.name}" not found')
    if taking.is_news and _same_version(volume, taking.before):
        return wait()
    if not _reached(volume, node):
        return _not_reached(volume, node)
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        return _failed(f'ClaimRef got reset for pv "{name}"')
    return SUCCESS if volumes.is_bound(claim) else wait()


def _made(provision: ClaimToProvision, node: Node, storage: Storage) -> Verdict:
    name = provision.after.metadata.name
    claim = storage.claims.shown(key_of(provision.after))
    if claim is None:
        return _failed(f'failed to check provisioning pvc: persistentvolumeclaim "{name}" not found')
    if provision.is_news and _same_version(claim, provision.before):
        return wait()
    if volumes.selected_node(claim) != node.metadata.name:
        return _failed(f'provisioning failed for PVC "{name}"')
    if not claim.spec.volume_name:
        return wait()
    volume = storage.volumes.shown(f"/{claim.spec.volume_name}")
    if volume is None:
        return wait()  # its event may come later than the claim's; if it is gone for good, the claim loses it too
    if not _reached(volume, node):
        return _not_reached(volume, node)
    return SUCCESS if volumes.is_bound(claim) else wait()


def _same_version(
    shown: PersistentVolume | PersistentVolumeClaim, decided_on: PersistentVolume | PersistentVolumeClaim
) -> bool:
    return shown.metadata.resource_version == decided_on.metadata.resource_version


def _reached(volume: PersistentVolume, node: Node) -> bool:
    return volumes.node_affinity_of(volume).matches("", node.metadata.labels)


def _not_reached(volume: PersistentVolume, node: Node) -> Verdict:
    return _failed(
        f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.metadata.name}": '
        "no matching NodeSelectorTerms"
    )


def _failed(reason: str) -> Verdict:
    return error(f"binding volumes: {reason}")
