"""Volume candidates: for all nodes at once, whether a pod could get its volumes there, and which.

Goes in: a pod's claims and the snapshot. Comes out: `ClaimsOfPod`, the claims sorted by how they get their volumes, or
the verdict that no node will do; then `VolumeCandidates`, masks over nodes with a mask per kind of refusal.

    bound claim                              the nodes that reach its volume
    unbound, class waits for a pod           the smallest available volume that suits, or else one to be made there
    ... and a node was selected before       to be made there and nowhere else
    unbound otherwise                        unresolvable until it is bound

For a seat, the claim that will be created for its pod counts as if it existed. A claim that its controller binds by
itself will be bound by the time the pod comes, but not yet where: every node will do, and the pod is filtered again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from restow.model import volumes
from restow.model.cluster import Mask, Which, node_filters
from restow.model.cluster.storage import NONE, ClaimRequirements, OfferedVolume, claim_requirements
from restow.model.cluster.storage.volume_pool import Numbers
from restow.model.objects import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from restow.model.quantity import QuantityError
from restow.model.reservations.reserved_pod import is_reserved_pod
from restow.model.selectors import Requirement, SelectorError
from restow.model.snapshot import Snapshot
from restow.model.volumes import ClaimUse
from restow.scheduling.framework import Verdict, error, unresolvable

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class BoundClaim(msgspec.Struct, frozen=True):
    """A claim and its volume, if that is there."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None


class ClaimsOfPod(msgspec.Struct, frozen=True):
    """The claims of a pod."""

    bound: tuple[BoundClaim, ...] = ()
    pinned: tuple[ClaimRequirements, ...] = ()
    """To be made where the claim says."""
    free: tuple[ClaimRequirements, ...] = ()
    """To be matched or made anywhere; the smallest first."""

    @property
    def unbound(self) -> bool:
        return bool(self.pinned or self.free)


class ClaimMatch(msgspec.Struct, frozen=True):
    """Which volume a claim would get on which node: `offers[choice[row]]`, or none where that is NONE."""

    wish: ClaimRequirements
    offers: Sequence[OfferedVolume]
    choice: Numbers

    @property
    def none(self) -> Mask:
        missing: Mask = self.choice == NONE
        return missing


class VolumeCandidates(msgspec.Struct, frozen=True):
    """The refused rows by reason, and the matches."""

    not_reached: Mask
    no_volume: Mask
    no_space: Mask
    volume_gone: Mask
    matches: tuple[ClaimMatch, ...]

    @property
    def accepted(self) -> Mask:
        return ~(self.not_reached | self.no_volume | self.no_space | self.volume_gone)

    def reasons(self) -> list[tuple[str, Mask]]:
        return [
            (NOT_REACHED, self.not_reached),
            (NO_VOLUME, self.no_volume),
            (NO_SPACE, self.no_space),
            (VOLUME_GONE, self.volume_gone),
        ]


def claims_of_pod(pod: Pod, snapshot: Snapshot) -> ClaimsOfPod | Verdict:
    """The claims of a pod as they are now, assumptions included; or why no node will do."""
    bound: list[BoundClaim] = []
    waiting: list[PersistentVolumeClaim] = []
    immediate = False
    to_come = volumes.generated_claims(pod) if is_reserved_pod(pod) else {}
    for use in volumes.claims_used(pod):
        if use.generated and use.name in to_come:
            waiting += [claim for claim in (_of_its_class(to_come[use.name], snapshot),) if _waits(snapshot, claim)]
            continue
        claim = snapshot.storage.claim(pod.metadata.namespace or "", use.name)
        problem = _problem(pod, use, claim)
        if problem or claim is None:
            return unresolvable(problem)
        if volumes.is_bound(claim):
            bound.append(BoundClaim(claim, snapshot.storage.volume(claim.spec.volume_name or "")))
        elif _waits(snapshot, claim):
            waiting.append(claim)
        else:
            immediate = True
    if immediate:
        return unresolvable(UNBOUND)
    try:
        wishes = [claim_requirements(claim) for claim in waiting]
    except (SelectorError, QuantityError) as mistake:
        return error(str(mistake))
    pinned = tuple(wish for wish in wishes if volumes.selected_node(wish.claim) is not None)
    free = [wish for wish in wishes if volumes.selected_node(wish.claim) is None]
    return ClaimsOfPod(
        tuple(bound), pinned, tuple(sorted(free, key=lambda wish: (wish.size, wish.claim.metadata.name)))
    )


def find_volumes(claims: ClaimsOfPod, snapshot: Snapshot, rows: Which) -> VolumeCandidates:
    """Whether and how these rows could have the volumes."""
    not_reached, volume_gone = _check_bound(claims.bound, snapshot, rows)
    matches = _match(claims.free, snapshot, rows)
    no_volume, no_space = _check_unbound(claims, matches, snapshot, rows)
    return VolumeCandidates(not_reached, no_volume, no_space, volume_gone, tuple(matches))


# --- bound claims -----------------------------------------------------------------------------------------------------


def _check_bound(bound: Sequence[BoundClaim], snapshot: Snapshot, rows: Which) -> tuple[Mask, Mask]:
    """Rows that do not reach some volume, and rows for which one is gone; each row gets its first refusal."""
    left = ~_no(snapshot, rows)
    for volume in bound:
        if volume.volume is None:
            return ~left, left
        left &= node_filters.selected_rows(snapshot.nodes, snapshot.storage.offers.node_affinity(volume.volume), rows)
    return ~left, _no(snapshot, rows)


# --- claims to be matched ---------------------------------------------------------------------------------------------


def _match(wishes: Sequence[ClaimRequirements], snapshot: Snapshot, rows: Which) -> list[ClaimMatch]:
    """A volume that names the claim is the one it gets, or none; otherwise the smallest of its class that suits."""
    held = {number: _held(wish, snapshot) for number, wish in enumerate(wishes)}
    by_class: dict[str, list[int]] = {}
    matches: dict[int, ClaimMatch] = {}
    for number, wish in enumerate(wishes):
        offer = held[number]
        if offer is None:
            by_class.setdefault(volumes.class_name(wish.claim), []).append(number)
        else:
            reached = node_filters.selected_rows(snapshot.nodes, offer.node_affinity, rows)
            matches[number] = ClaimMatch(wish, [offer], np.where(reached, 0, NONE))
    for name, numbers in by_class.items():
        pool = snapshot.storage.offers.pool(name)
        choices = pool.choose_volumes([wishes[number] for number in numbers], rows)
        for number, choice in zip(numbers, choices, strict=True):
            matches[number] = ClaimMatch(wishes[number], pool.offers, choice)
    return [matches[number] for number in range(len(wishes))]


def _held(wish: ClaimRequirements, snapshot: Snapshot) -> OfferedVolume | None:
    """The volume that names the claim, if it is one the claim can have at all."""
    name = volumes.class_name(wish.claim)
    for offer in snapshot.storage.offers.prebound_to(wish.claim):
        if volumes.class_name(offer.volume) == name and wish.can_be_bound_to(offer):
            return offer
    return None


# --- volumes to be provisioned ----------------------------------------------------------------------------------------


def _check_unbound(
    claims: ClaimsOfPod, matches: Sequence[ClaimMatch], snapshot: Snapshot, rows: Which
) -> tuple[Mask, Mask]:
    """Rows without a volume for some claim, and rows without space to make one; each row gets its first refusal."""
    if not claims.unbound:
        return _no(snapshot, rows), _no(snapshot, rows)
    left = ~_no(snapshot, rows)
    for wish in claims.pinned:
        left &= snapshot.rows.among([volumes.selected_node(wish.claim) or ""], rows)
    no_volume, no_space = ~left, _no(snapshot, rows)
    missing = [(wish, left) for wish in claims.pinned] + [(match.wish, match.none) for match in matches]
    for wish, where in missing:
        asked = left & where
        if not asked.any():
            continue
        storage_class = snapshot.storage.storage_class(volumes.class_name(wish.claim))
        made = asked & _can_make(storage_class, snapshot, rows)
        no_volume |= asked & ~made
        enough = made & _has_space(wish, storage_class, snapshot, rows)
        no_space |= made & ~enough
        left &= ~asked | enough
    return no_volume, no_space


def _can_make(storage_class: StorageClass | None, snapshot: Snapshot, rows: Which) -> Mask:
    """Where a class makes volumes."""
    if storage_class is None or storage_class.provisioner in ("", volumes.NO_PROVISIONER):
        return _no(snapshot, rows)
    if not storage_class.allowed_topologies:
        return ~_no(snapshot, rows)
    allowed = _no(snapshot, rows)
    for term in storage_class.allowed_topologies:
        here = np.full_like(allowed, bool(term.match_label_expressions))
        for expression in term.match_label_expressions or ():
            here &= snapshot.nodes.labels.mask(Requirement(expression.key, "In", tuple(expression.values or ())), rows)
        allowed |= here
    return allowed


def _has_space(wish: ClaimRequirements, storage_class: StorageClass | None, snapshot: Snapshot, rows: Which) -> Mask:
    """Where there is space for one more volume, as far as the driver publishes it. Claims do not add up: what a driver
    says is what it had when it said so."""
    driver = snapshot.storage.csi_driver(storage_class.provisioner) if storage_class else None
    size = (wish.claim.spec.resources.requests or {}).get("storage")
    if storage_class is None or driver is None or not driver.spec.storage_capacity or size is None:
        return ~_no(snapshot, rows)
    enough: Mask = snapshot.storage.provisionable(storage_class.metadata.name).largest_sizes(rows) >= wish.size.value
    return enough


# ----------------------------------------------------------------------------------------------------------------------


def _problem(pod: Pod, use: ClaimUse, claim: PersistentVolumeClaim | None) -> str:
    """Why a claim cannot be used at all, or ""."""
    if claim is None and use.generated:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
    if claim is None:
        return f'persistentvolumeclaim "{use.name}" not found'
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name or ""
        return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    return not_made_for(pod, claim) if use.generated else ""


def not_made_for(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Why a generated claim is not this pod's, or ""."""
    if volumes.is_generated_for(claim, pod):
        return ""
    namespace = pod.metadata.namespace
    names = f"{namespace}/{claim.metadata.name}", f"{namespace}/{pod.metadata.name}"
    return f"PVC {names[0]} was not created for pod {names[1]} (pod is not owner)"


def _of_its_class(claim: PersistentVolumeClaim, snapshot: Snapshot) -> PersistentVolumeClaim:
    """A claim to come with the class that the API server will give it."""
    known = snapshot.storage.default_class() if claim.spec.storage_class_name is None else None
    return replace(claim, spec=replace(claim.spec, storage_class_name=known.metadata.name)) if known else claim


def _waits(snapshot: Snapshot, claim: PersistentVolumeClaim) -> bool:
    """Whether the claim is ours to bind; one that names its volume already is its controller's."""
    storage_class = snapshot.storage.storage_class(volumes.class_name(claim))
    return volumes.waits_for_pod(storage_class) and not claim.spec.volume_name


def _no(snapshot: Snapshot, rows: Which) -> Mask:
    return np.zeros(snapshot.nodes.present[rows].shape, np.bool_)
