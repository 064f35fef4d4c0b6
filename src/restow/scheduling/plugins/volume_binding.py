"""VolumeBinding: a pod goes where its volumes are or can be, and they are bound before it is.

    PreFilter    the claims must exist, and be bound unless their class waits for a pod
    Filter       the nodes that reach the volumes, or where they can be matched or provisioned (`volume_candidates`)
    Reserve      the choice for the node, assumed in the snapshot: a volume names its claim, a claim its node
    PreBind      the same as writes to the API: volumes first, then claims; then wait until every claim is bound
    Unreserve    the assumptions taken back, in memory only

Nothing that was written is ever taken back. After a failure a claim keeps its selected node, so that the next attempt
goes there again, until the provisioner gives up and removes it; and a volume keeps its claim. The component that sends
the writes should apply the API's answers to the snapshot. Otherwise the next attempt may choose before the watch shows
them, and its write conflicts.

The argument `bindTimeoutSeconds` (600) limits the wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.model import volumes
from restow.model.cluster import Mask, Which
from restow.model.cluster.storage import OutOfSync, key_of
from restow.model.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from restow.model.objects import ObjectReference, PersistentVolume, PersistentVolumeClaim
from restow.model.snapshot import Snapshot
from restow.scheduling.accelerated import ClassFilter
from restow.scheduling.framework import (
    SKIP,
    SKIP_FOR_CLASS,
    SUCCESS,
    ArgumentError,
    Code,
    Cycle,
    FilterPlugin,
    PreBindPlugin,
    Reach,
    Refusal,
    ReservePlugin,
    Verdict,
    error,
    unresolvable,
)
from restow.scheduling.plugins.plugin_arguments import read_arguments
from restow.scheduling.plugins.refusals import refusals_of
from restow.scheduling.plugins.volume_binding_state import ClaimToProvision, VolumeTaken, VolumeWrites, binding_state
from restow.scheduling.plugins.volume_candidates import ClaimsOfPod, claims_of_pod, find_volumes
from restow.scheduling.writes import Patch, Write

_CLAIMS = "VolumeBinding.claims"
_RESERVED = "VolumeBinding.reserved"


class VolumeBindingArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    bind_timeout_seconds: int = 600


class ReservedVolumes(msgspec.Struct):
    """The volumes that Reserve chose for a node."""

    node: str
    written: VolumeWrites
    since: float | None = None
    """When PreBind began."""


class VolumeBinding(FilterPlugin, ReservePlugin, PreBindPlugin, ClassFilter):
    name: ClassVar[str] = "VolumeBinding"
    reach: ClassVar[Reach] = Reach.CLUSTER

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        self._timeout = read_arguments(VolumeBindingArgs, arguments).bind_timeout_seconds
        if self._timeout < 0:
            raise ArgumentError(["bindTimeoutSeconds: must not be negative"])

    def pre_filter(self, cycle: Cycle) -> Verdict:
        if not cycle.pod_class.shape.fields.volumes:
            return SKIP_FOR_CLASS
        claims = claims_of_pod(cycle.pod, cycle.snapshot)
        if isinstance(claims, Verdict):
            return claims
        if not claims.bound and not claims.unbound:
            return SKIP
        cycle.state[_CLAIMS] = claims
        return SUCCESS

    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        return find_volumes(cycle.state[_CLAIMS], cycle.snapshot, rows).accepted

    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        volumes = find_volumes(cycle.state[_CLAIMS], cycle.snapshot, rows)
        return [refusal for reason, mask in volumes.reasons() for refusal in refusals_of(reason, mask)]

    # --- Reserve ------------------------------------------------------------------------------------------------------

    def reserve(self, cycle: Cycle, node: str) -> Verdict:
        if not cycle.pod_class.shape.fields.volumes:
            return SUCCESS
        claims = claims_of_pod(cycle.pod, cycle.snapshot)
        if isinstance(claims, Verdict):
            return claims
        if not claims.unbound:
            return SUCCESS
        decided = _decide(claims, cycle.snapshot, node)
        if isinstance(decided, Verdict):
            return decided
        try:
            _assume(decided.written, cycle.snapshot)
        except OutOfSync as late:
            _restore(decided.written, cycle.snapshot)
            return error(str(late))
        cycle.state[_RESERVED] = decided
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        reserved = _reserved(cycle, node)
        if reserved is not None:
            _restore(reserved.written, cycle.snapshot)
            del cycle.state[_RESERVED]

    # --- PreBind ------------------------------------------------------------------------------------------------------

    def pre_bind(self, cycle: Cycle, node: str) -> Sequence[Write]:
        reserved = _reserved(cycle, node)
        if reserved is None:
            return ()
        reserved.since = cycle.now
        taken = [_patch_volume(taking) for taking in reserved.written.takings if taking.is_news]
        return taken + [_patch_claim(provision, node) for provision in reserved.written.provisions if provision.is_news]

    def settled(self, cycle: Cycle, node: str) -> Verdict:
        reserved = _reserved(cycle, node)
        if reserved is None:
            return SUCCESS
        verdict = binding_state(cycle, node, reserved.written)
        late = reserved.since is not None and cycle.now - reserved.since >= self._timeout
        if verdict.code is Code.WAIT and late:
            return error("binding volumes: context deadline exceeded")
        return verdict


def _reserved(cycle: Cycle, node: str) -> ReservedVolumes | None:
    reserved: ReservedVolumes | None = cycle.state.get(_RESERVED)
    return reserved if reserved is not None and reserved.node == node else None


def _decide(claims: ClaimsOfPod, snapshot: Snapshot, node: str) -> ReservedVolumes | Verdict:
    """The volumes the claims get on this node: the same search as Filter's, for one row, as things are now."""
    row = snapshot.rows.find_row(node)
    if row is None:
        return unresolvable(f'node "{node}" not found')
    volumes = find_volumes(claims, snapshot, np.array([row], np.intp))
    reasons = [reason for reason, mask in volumes.reasons() if mask[0]]
    if reasons:
        return unresolvable(*reasons)
    takings: list[VolumeTaken] = []
    made = [wish.claim for wish in claims.pinned]
    for match in volumes.matches:
        if match.none[0]:
            made.append(match.wish.claim)
        else:
            offer = match.offers[int(match.choice[0])]
            takings.append(_taking(offer.volume, match.wish.claim, snapshot))
    return ReservedVolumes(
        node, VolumeWrites(tuple(takings), tuple(_provision(claim, node, snapshot) for claim in made))
    )


def _taking(volume: PersistentVolume, claim: PersistentVolumeClaim, snapshot: Snapshot) -> VolumeTaken:
    """The volume with a reference to this very claim, marked as not the user's idea unless it named it before."""
    before = snapshot.storage.volumes.shown(key_of(volume)) or volume
    after, reference = before, before.spec.claim_ref
    if reference is None or not volumes.is_prebound_to(before, claim) or reference.uid != claim.metadata.uid:
        after = replace(before, spec=replace(before.spec, claim_ref=_reference(claim)))
    if not volumes.is_prebound_to(before, claim):
        after = _annotated(after, volumes.BOUND_BY_CONTROLLER, "yes")
    return VolumeTaken(before, after, claim)


def _provision(claim: PersistentVolumeClaim, node: str, snapshot: Snapshot) -> ClaimToProvision:
    before = snapshot.storage.claims.shown(key_of(claim)) or claim
    same = volumes.selected_node(before) == node
    return ClaimToProvision(before, before if same else _annotated(before, volumes.SELECTED_NODE, node))


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version or None,
    )


Annotated = TypeVar("Annotated", PersistentVolume, PersistentVolumeClaim)


def _annotated(item: Annotated, key: str, value: str) -> Annotated:
    annotations = {**(item.metadata.annotations or {}), key: value}
    return replace(item, metadata=replace(item.metadata, annotations=annotations))


def _assume(written: VolumeWrites, snapshot: Snapshot) -> None:
    """Raises OutOfSync."""
    for taking in written.takings:
        if taking.is_news:
            snapshot.storage.volumes.assume(taking.after)
    for provision in written.provisions:
        if provision.is_news:
            snapshot.storage.claims.assume(provision.after)


def _restore(written: VolumeWrites, snapshot: Snapshot) -> None:
    for taking in written.takings:
        snapshot.storage.volumes.forget(taking.after)
    for provision in written.provisions:
        snapshot.storage.claims.forget(provision.after)


def _patch_volume(taking: VolumeTaken) -> Patch:
    changes: dict[str, Any] = {"spec": {"claimRef": msgspec.to_builtins(taking.after.spec.claim_ref)}}
    if taking.after.metadata is not taking.before.metadata:
        changes["metadata"] = {"annotations": {volumes.BOUND_BY_CONTROLLER: "yes"}}
    return Patch(
        kind=PERSISTENT_VOLUME,
        namespace=None,
        name=taking.before.metadata.name,
        changes=changes,
        resource_version=taking.before.metadata.resource_version,
    )


def _patch_claim(provision: ClaimToProvision, node: str) -> Patch:
    return Patch(
        kind=PERSISTENT_VOLUME_CLAIM,
        namespace=provision.before.metadata.namespace,
        name=provision.before.metadata.name,
        changes={"metadata": {"annotations": {volumes.SELECTED_NODE: node}}},
        resource_version=provision.before.metadata.resource_version,
    )
