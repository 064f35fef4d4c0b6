"""The arithmetic of a rolling update: how large each ReplicaSet of a Deployment should be next. Pure.

In: the desired size, surge and unavailability, and the sets as `Size`s (oldest first). Out: new sizes by name, without
the sets that keep their size. The rules are those of kube-controller-manager's deployment controller.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from restow.model.int_or_percent import scaled_int_or_percent
from restow.sim.world.raw_objects import RawObject


class Bounds(msgspec.Struct, frozen=True):
    """A rollout keeps total pods ≤ replicas + surge and available pods ≥ replicas - unavailable."""

    replicas: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, replicas: int, surge: int | str | None, unavailable: int | str | None) -> Bounds:
        up = scaled_int_or_percent(surge, replicas, up=True)
        down = scaled_int_or_percent(unavailable, replicas, up=False)
        # Rounding may leave no room to move at all; then one pod may be missing.
        return cls(replicas, up, max(down, 1) if not up else down)


class Size(msgspec.Struct, frozen=True):
    """The size of one ReplicaSet: wished and available pods."""

    name: str
    replicas: int
    available: int

    @classmethod
    def of(cls, replica_set: RawObject) -> Size:
        return cls(replica_set.metadata.name, replica_count(replica_set), available_count(replica_set))


def replica_count(replica_set: RawObject) -> int:
    return int(replica_set.spec.get("replicas", 1))


def available_count(replica_set: RawObject) -> int:
    return int(replica_set.status.get("availableReplicas") or 0)


def grow_new(bounds: Bounds, new: Size, old: Sequence[Size]) -> int:
    """The size of the new set: as large as the surge allows, never beyond what is wished."""
    if new.replicas >= bounds.replicas:
        return bounds.replicas
    room = bounds.replicas + bounds.surge - new.replicas - sum(each.replicas for each in old)
    return new.replicas + max(0, min(room, bounds.replicas - new.replicas))


def shrink_old(bounds: Bounds, new: Size, old: Sequence[Size]) -> dict[str, int]:
    """Sizes of old sets: unavailable pods go first, then as many as availability allows, oldest sets first."""
    sizes = {each.name: each.replicas for each in old}
    floor = bounds.replicas - bounds.unavailable
    budget = new.replicas + sum(sizes.values()) - floor - (new.replicas - new.available)
    if budget <= 0:
        return {}
    for each in old:
        unhealthy = min(budget, each.replicas - each.available)
        if unhealthy > 0:
            sizes[each.name] -= unhealthy
            budget -= unhealthy
    spare = new.available + sum(each.available for each in old) - floor
    for each in old:
        fewer = max(0, min(sizes[each.name], spare))
        sizes[each.name] -= fewer
        spare -= fewer
    return {each.name: sizes[each.name] for each in old if sizes[each.name] != each.replicas}


def scale_in_proportion(bounds: Bounds, sets: Sequence[Size], largest_before: dict[str, int]) -> dict[str, int]:
    """Sizes when the wished size changes in the middle of a rollout: every active set keeps its share.

    `largest_before` is the total each set was last scaled for (replicas + surge then). What rounding leaves over goes
    to the largest set.
    """
    active = [each for each in sets if each.replicas]
    total = sum(each.replicas for each in active)
    allowed = bounds.replicas + bounds.surge if bounds.replicas else 0
    to_add = allowed - total
    order = sorted(active, key=lambda each: -each.replicas)
    sizes: dict[str, int] = {}
    added = 0
    for each in order:
        before = largest_before.get(each.name) or total
        share = round(each.replicas * allowed / before) - each.replicas if to_add else 0
        left = to_add - added
        share = max(min(share, left), 0) if to_add > 0 else min(max(share, left), 0)
        sizes[each.name] = each.replicas + share
        added += share
    if order:
        sizes[order[0].name] = max(0, sizes[order[0].name] + to_add - added)
    return sizes
