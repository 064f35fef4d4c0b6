"""ReplicaSets: as many active pods as asked for, the least valuable given up first, and a status that counts them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.kinds import POD, Kind
from restow.model.object_key import Key
from restow.model.objects import Pod
from restow.model.pods import controller_of, is_ready
from restow.sim.world.pods import available_in, deletion_order, is_active
from restow.sim.world.raw_objects import REPLICA_SET, RawObject
from restow.sim.world.rule import (
    Rule,
    adopt_and_release,
    none_if_zero,
    owner_keys,
    reference_to,
    shortest_wait,
    write_status,
)
from restow.sim.world.step import NOTHING, Create, Delete, Step, Write
from restow.sim.world.template import pod_from, random_suffix
from restow.sim.world.view import View

BURST = 500  # pods created or deleted in one step


class ReplicaSets(Rule):
    kind = REPLICA_SET
    also = (POD,)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        return owner_keys(REPLICA_SET, change, view)

    def decide(self, key: Key, view: View) -> Step:
        replica_set = view.get(REPLICA_SET, key)
        if replica_set is None or view.is_leaving(replica_set):
            return NOTHING
        pods, claims = adopt_and_release(REPLICA_SET, replica_set, POD, view)
        active = [pod for pod in pods if is_active(pod, view)]
        missing = int(replica_set.spec.get("replicas", 1)) - len(active)
        pause = view.creation_pause(replica_set.metadata.uid) if missing > 0 else 0.0
        creates = _create(replica_set, missing, view) if missing > 0 and not pause else []
        deletes = _delete(replica_set, active, -missing, view) if missing < 0 else []
        status, again = _status(replica_set, active, view.now)
        return Step((*claims, *creates, *deletes, *status), shortest_wait((again, pause)))


def _create(replica_set: RawObject, count: int, view: View) -> list[Write]:
    meta = replica_set.metadata
    owner = reference_to(REPLICA_SET, replica_set)
    names = [f"{meta.name}-{random_suffix(view.rng)}" for _ in range(min(count, BURST))]
    template = replica_set.spec.get("template") or {}
    return [Create(POD, pod_from(template, meta.namespace or "", name, owner)) for name in names]


def _delete(replica_set: RawObject, active: list[Pod], count: int, view: View) -> list[Write]:
    order = deletion_order(active, _family(replica_set, active, view), view.now)
    return [Delete.of(POD, pod) for pod in order[: min(count, BURST)]]


def _family(replica_set: RawObject, active: list[Pod], view: View) -> list[Pod]:
    """The active pods of all ReplicaSets that share this one's controller."""
    owner = controller_of(replica_set)
    if owner is None:
        return active
    siblings = view.owned(REPLICA_SET, owner.uid)
    pods = [pod for sibling in siblings for pod in view.owned(POD, sibling.metadata.uid)]
    return [pod for pod in pods if is_active(pod, view)]


def _status(replica_set: RawObject, active: list[Pod], now: float) -> tuple[list[Write], float | None]:
    template = ((replica_set.spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    min_ready = replica_set.spec.get("minReadySeconds") or 0
    waits = [available_in(pod, min_ready, now) for pod in active]
    labelled = sum(1 for pod in active if template.items() <= (pod.metadata.labels or {}).items())
    wanted = {
        "replicas": len(active),
        "fullyLabeledReplicas": none_if_zero(labelled),
        "readyReplicas": none_if_zero(sum(map(is_ready, active))),
        "availableReplicas": none_if_zero(sum(1 for wait in waits if wait == 0)),
        "observedGeneration": replica_set.metadata.generation,
    }
    return write_status(REPLICA_SET, replica_set, wanted), shortest_wait(waits)
