"""StatefulSets: pods with stable names and claims, brought up and down in order, updated from the highest ordinal.

OrderedReady goes one pod at a time and waits for each; Parallel does not wait. A rolling update replaces pods at or
above the partition; those below keep the template of the current revision, which is why revisions are stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.int_or_percent import scaled_int_or_percent
from restow.model.kinds import PERSISTENT_VOLUME_CLAIM, POD, Kind
from restow.model.object_key import Key
from restow.model.objects import Document, Pod
from restow.model.pods import is_finished, is_ready
from restow.sim.world.pods import available_in
from restow.sim.world.raw_objects import CONTROLLER_REVISION, STATEFUL_SET, RawObject
from restow.sim.world.revisions import revision_of, stored_template, update_revisions
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
from restow.sim.world.template import REVISION_HASH, pod_from, revision_name
from restow.sim.world.view import View

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


class StatefulSets(Rule):
    kind = STATEFUL_SET
    also = (POD, PERSISTENT_VOLUME_CLAIM, CONTROLLER_REVISION)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        return owner_keys(STATEFUL_SET, change, view) if kind == POD else ()

    def decide(self, key: Key, view: View) -> Step:
        stateful_set = view.get(STATEFUL_SET, key)
        if stateful_set is None or view.is_leaving(stateful_set):
            return NOTHING
        pods, claims = adopt_and_release(STATEFUL_SET, stateful_set, POD, view)
        return _Ordered(stateful_set, pods, view).step(claims)


class _Ordered:
    """One look at one StatefulSet and its pods."""

    def __init__(self, stateful_set: RawObject, pods: list[Pod], view: View) -> None:
        self.set = stateful_set
        self.view = view
        spec = stateful_set.spec
        self.replicas = int(spec.get("replicas", 1))
        self.start = int((spec.get("ordinals") or {}).get("start", 0))
        self.in_order = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        self.min_ready = float(spec.get("minReadySeconds") or 0)
        strategy = spec.get("updateStrategy") or {}
        self.rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        limits = strategy.get("rollingUpdate") or {}
        self.partition = int(limits.get("partition") or 0)
        self.max_unavailable = max(1, scaled_int_or_percent(limits.get("maxUnavailable", 1), self.replicas, up=False))
        self.update = revision_name(stateful_set.metadata.name, spec.get("template") or {})
        self.current = str(stateful_set.status.get("currentRevision") or self.update)
        self.pause = view.creation_pause(stateful_set.metadata.uid)
        self.by_ordinal = {ordinal: pod for pod in pods if (ordinal := _ordinal(self.set, pod)) is not None}

    def step(self, claims: list[Write]) -> Step:
        writes = [*claims, *self._revisions()]
        waiting = self._living(writes) or self._condemned(writes)
        if not waiting and self.rolling:
            self._roll(writes)
        waits = [available_in(pod, self.min_ready, self.view.now) for pod in self.by_ordinal.values()]
        writes += write_status(STATEFUL_SET, self.set, self._status())
        return Step(tuple(writes), shortest_wait((*waits, self.pause)))

    # ---- deciding: each adds its writes and says whether there is something to wait for

    def _living(self, writes: list[Write]) -> bool:
        for ordinal in range(self.start, self.start + self.replicas):
            pod = self.by_ordinal.get(ordinal)
            if pod is None and self.pause:
                return True
            if pod is None:
                writes += self._create(ordinal)
                if self.in_order:
                    return True
                continue
            if is_finished(pod) and not self.view.is_leaving(pod):
                writes.append(Delete.of(POD, pod))
                return True
            if not is_ready(pod):
                writes += self._missing_claims(ordinal)
            if self.in_order and (self.view.is_leaving(pod) or not self._is_available(pod)):
                return True
        return False

    def _condemned(self, writes: list[Write]) -> bool:
        """Pods beyond the wished size go from the highest ordinal down."""
        last = self.start + self.replicas
        condemned = [ordinal for ordinal in self.by_ordinal if not self.start <= ordinal < last]
        for ordinal in sorted(condemned, reverse=True):
            pod = self.by_ordinal[ordinal]
            if not self.view.is_leaving(pod):
                writes.append(Delete.of(POD, pod))
            if self.in_order:
                return True
        return bool(condemned)

    def _roll(self, writes: list[Write]) -> None:
        """Replace outdated pods from the highest ordinal down to the partition, few enough at a time."""
        ordinals = range(self.start, self.start + self.replicas)
        pods = [self.by_ordinal[ordinal] for ordinal in ordinals if ordinal in self.by_ordinal]
        budget = self.max_unavailable - sum(
            1 for pod in pods if self.view.is_leaving(pod) or not self._is_available(pod)
        )
        for ordinal in reversed(ordinals[self.partition :]):
            pod = self.by_ordinal.get(ordinal)
            if budget <= 0:
                return
            if pod is not None and not self.view.is_leaving(pod) and revision_of(pod) != self.update:
                writes.append(Delete.of(POD, pod))
                budget -= 1

    def _is_available(self, pod: Pod) -> bool:
        return available_in(pod, self.min_ready, self.view.now) == 0

    # ---- making

    def _create(self, ordinal: int) -> list[Write]:
        old = self.rolling and ordinal < self.start + self.partition
        template = self._template(self.current) if old else self.set.spec.get("template") or {}
        meta = self.set.metadata
        name = f"{meta.name}-{ordinal}"
        pod = pod_from(template, meta.namespace or "", name, reference_to(STATEFUL_SET, self.set))
        revision = self.current if old else self.update
        labels = pod["metadata"].setdefault("labels", {})
        labels |= {POD_NAME: name, POD_INDEX: str(ordinal), REVISION_HASH: revision}
        pod["spec"] |= {"hostname": name, "subdomain": self.set.spec.get("serviceName") or ""}
        claimed = [
            {
                "name": claim["metadata"]["name"],
                "persistentVolumeClaim": {"claimName": self._claim_name(claim, ordinal)},
            }
            for claim in self.set.spec.get("volumeClaimTemplates") or ()
        ]
        if claimed:
            names = {volume["name"] for volume in claimed}
            others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in names]
            pod["spec"]["volumes"] = [*others, *claimed]
        return [*self._missing_claims(ordinal), Create(POD, pod)]

    def _missing_claims(self, ordinal: int) -> list[Write]:
        namespace = self.set.metadata.namespace or ""
        writes: list[Write] = []
        for template in self.set.spec.get("volumeClaimTemplates") or ():
            name = self._claim_name(template, ordinal)
            if self.view.get(PERSISTENT_VOLUME_CLAIM, (namespace, name)) is None:
                labels = ((self.set.spec.get("selector") or {}).get("matchLabels")) or {}
                metadata = {**template["metadata"], "name": name, "namespace": namespace}
                metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
                writes.append(Create(PERSISTENT_VOLUME_CLAIM, {"metadata": metadata, "spec": template["spec"]}))
        return writes

    def _claim_name(self, claim: Document, ordinal: int) -> str:
        return f"{claim['metadata']['name']}-{self.set.metadata.name}-{ordinal}"

    # ---- revisions and status

    def _revisions(self) -> list[Write]:
        used = {self.current, *map(revision_of, self.by_ordinal.values())}
        return update_revisions(STATEFUL_SET, self.set, self.update, used, self.view)

    def _template(self, revision: str) -> Document:
        kept = stored_template(self.set.metadata.namespace or "", revision, self.view)
        template: Document = self.set.spec.get("template") or {}
        return template if kept is None else kept

    def _status(self) -> Document:
        pods = list(self.by_ordinal.values())
        present = [pod for pod in pods if not self.view.is_leaving(pod)]
        updated = sum(1 for pod in present if revision_of(pod) == self.update)
        ready = sum(1 for pod in pods if is_ready(pod))
        done = self.rolling and updated == ready == len(pods) == self.replicas
        current = self.update if done else self.current
        return {
            "replicas": len(pods),
            "readyReplicas": none_if_zero(ready),
            "availableReplicas": sum(1 for pod in pods if self._is_available(pod)),
            "currentReplicas": none_if_zero(sum(1 for pod in present if revision_of(pod) == current)),
            "updatedReplicas": none_if_zero(updated),
            "currentRevision": current,
            "updateRevision": self.update,
            "observedGeneration": self.set.metadata.generation,
            "collisionCount": 0,
        }


def _ordinal(stateful_set: RawObject, pod: Pod) -> int | None:
    """The number at the end of the name, if the rest of the name is the set's."""
    parent, _, number = pod.metadata.name.rpartition("-")
    return int(number) if parent == stateful_set.metadata.name and number.isdigit() else None
