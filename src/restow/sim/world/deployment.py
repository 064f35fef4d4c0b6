"""Deployments: one ReplicaSet per template, and a gradual change from the old ones to the new one.

One step does one thing, as upstream: create the new set, or scale, or clean up; the status is written with it. What
`kubectl rollout status` waits for is in the status: observedGeneration, updated and available replicas, Progressing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.kinds import POD, Kind
from restow.model.object_key import Key
from restow.model.objects import Document
from restow.model.pods import controller_of, is_finished
from restow.sim.world.deployment_status import DeploymentStatusWriter
from restow.sim.world.raw_objects import DEPLOYMENT, REPLICA_SET, RawObject
from restow.sim.world.rollout import (
    Bounds,
    Size,
    available_count,
    grow_new,
    replica_count,
    scale_in_proportion,
    shrink_old,
)
from restow.sim.world.rule import (
    Rule,
    adopt_and_release,
    owner_keys,
    reference_to,
)
from restow.sim.world.step import NOTHING, Create, Delete, Patch, Step, Write
from restow.sim.world.template import TEMPLATE_HASH, template_hash, without_hash
from restow.sim.world.view import View

REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"


class Deployments(Rule):
    kind = DEPLOYMENT
    also = (REPLICA_SET, POD)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        if kind == REPLICA_SET:
            return owner_keys(DEPLOYMENT, change, view)
        # Recreate waits for the last old pod to go.
        return _deployment_of_pod(change, view) if change.type == "DELETED" else ()

    def decide(self, key: Key, view: View) -> Step:
        deployment = view.get(DEPLOYMENT, key)
        if deployment is None or view.is_leaving(deployment):
            return NOTHING
        claimed, claims = adopt_and_release(DEPLOYMENT, deployment, REPLICA_SET, view)
        if claims:
            return Step(tuple(claims))
        sets = [each for each in claimed if not view.is_leaving(each)]
        sets.sort(key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name))
        return _Rollout(deployment, sets, view).step()


def _deployment_of_pod(change: Change[Any], view: View) -> Iterable[Key]:
    owner = controller_of(change.object)
    if owner is None or owner.kind != REPLICA_SET.kind:
        return ()
    namespace = change.object.metadata.namespace or ""
    replica_set = view.get(REPLICA_SET, (namespace, owner.name))
    above = controller_of(replica_set) if replica_set else None
    return ((namespace, above.name),) if above else ()


class _Rollout:
    """One Deployment and its ReplicaSets at one moment, and the next step of its rollout."""

    def __init__(self, deployment: RawObject, sets: list[RawObject], view: View) -> None:
        self.deployment = deployment
        self.sets = sets
        self.view = view
        spec = deployment.spec
        template = without_hash(spec.get("template") or {})
        self.new = next((each for each in sets if without_hash(each.spec.get("template") or {}) == template), None)
        self.old = [each for each in sets if each is not self.new]
        strategy = spec.get("strategy") or {}
        rolling = strategy.get("rollingUpdate") or {}
        self.recreate = strategy.get("type") == "Recreate"
        self.replicas = int(spec.get("replicas", 1))
        self.bounds = (
            Bounds(self.replicas, 0, self.replicas)
            if self.recreate
            else Bounds.of(self.replicas, rolling.get("maxSurge", "25%"), rolling.get("maxUnavailable", "25%"))
        )

    def step(self) -> Step:
        writes = self._writes()
        creating = self.new is None and bool(writes)
        status, again = DeploymentStatusWriter(self.deployment, self.sets, self.new, self.bounds, self.view.now).write(
            creating
        )
        return Step((*writes, *status), again)

    # ---- deciding

    def _writes(self) -> list[Write]:
        paused = bool(self.deployment.spec.get("paused"))
        if paused or self._was_rescaled():
            return self._rescale()
        if self.recreate:
            return self._recreate()
        if self.new is None:
            return self._create_new(grow_new(self.bounds, Size("", 0, 0), self._sizes(self.old)))
        marks = self._mark_revision(self.new)
        if marks:
            return marks
        size = grow_new(self.bounds, Size.of(self.new), self._sizes(self.old))
        if size != replica_count(self.new):
            return [self._scale(self.new, size)]
        return self._shrink(self.new) or self._clean_up()

    def _shrink(self, new: RawObject) -> list[Write]:
        sizes = shrink_old(self.bounds, Size.of(new), self._sizes(self.old))
        return [self._scale(each, sizes[each.metadata.name]) for each in self.old if each.metadata.name in sizes]

    def _recreate(self) -> list[Write]:
        """Everything old goes first; only then does the new set come."""
        down: list[Write] = [self._scale(each, 0) for each in self.old if replica_count(each)]
        if down:
            return down
        if any(self._has_pods(each) for each in self.old):
            return []
        if self.new is None:
            return self._create_new(self.replicas)
        if replica_count(self.new) != self.replicas:
            return [self._scale(self.new, self.replicas)]
        return self._mark_revision(self.new) or self._clean_up()

    def _has_pods(self, replica_set: RawObject) -> bool:
        return any(not is_finished(pod) for pod in self.view.owned(POD, replica_set.metadata.uid))

    def _was_rescaled(self) -> bool:
        """Whether the desired size was changed since the sets were last scaled."""
        wished = str(self.replicas)
        return any(replica_count(each) and _annotations(each).get(DESIRED, wished) != wished for each in self.sets)

    def _rescale(self) -> list[Write]:
        active = [each for each in self.sets if replica_count(each)]
        if len(active) <= 1:
            target = active[0] if active else self.new or (self.old[-1] if self.old else None)
            return [self._scale(target, self.replicas)] if target and self._differs(target, self.replicas) else []
        if self.new is not None and replica_count(self.new) == available_count(self.new) == self.replicas:
            return [self._scale(each, 0) for each in self.old if replica_count(each)]
        if self.recreate:
            return []
        before = {each.metadata.name: int(_annotations(each).get(MOST, "0")) for each in active}
        sizes = scale_in_proportion(self.bounds, self._sizes(active), before)
        return [
            self._scale(each, sizes[each.metadata.name])
            for each in active
            if self._differs(each, sizes[each.metadata.name])
        ]

    def _differs(self, replica_set: RawObject, size: int) -> bool:
        return replica_count(replica_set) != size or _annotations(replica_set).get(DESIRED) != str(self.replicas)

    def _clean_up(self) -> list[Write]:
        """Forget old sets beyond the history limit, once the rollout is over."""
        limit = int(self.deployment.spec.get("revisionHistoryLimit", 10))
        idle = [each for each in self.old if not replica_count(each) and not each.status.get("replicas")]
        idle.sort(key=_revision)
        return [Delete.of(REPLICA_SET, each) for each in idle[: max(0, len(idle) - limit)]]

    # ---- writing

    def _create_new(self, size: int) -> list[Write]:
        meta = self.deployment.metadata
        template: Document = self.deployment.spec.get("template") or {}
        digest = template_hash(template, int(self.deployment.status.get("collisionCount") or 0))
        labels = {**((template.get("metadata") or {}).get("labels") or {}), TEMPLATE_HASH: digest}
        selector: Document = self.deployment.spec.get("selector") or {}
        revision = str(1 + max((_revision(each) for each in self.old), default=0))
        spec: Document = {
            "replicas": size,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), TEMPLATE_HASH: digest}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        }
        if self.deployment.spec.get("minReadySeconds"):
            spec["minReadySeconds"] = self.deployment.spec["minReadySeconds"]
        document = {
            "metadata": {
                "name": f"{meta.name}-{digest}",
                "namespace": meta.namespace,
                "labels": labels,
                "annotations": self._scale_marks() | {REVISION: revision},
                "ownerReferences": [reference_to(DEPLOYMENT, self.deployment)],
            },
            "spec": spec,
        }
        return [Create(REPLICA_SET, document), *self._set_revision(revision)]

    def _mark_revision(self, new: RawObject) -> list[Write]:
        """Number the new set as the newest revision, also when its template is one that an earlier revision had."""
        latest = max((_revision(each) for each in self.old), default=0)
        revision = _revision(new) if _revision(new) > latest else latest + 1
        writes: list[Write] = []
        if revision != _revision(new):
            writes.append(_annotate(REPLICA_SET, new, {REVISION: str(revision)}))
        return [*writes, *self._set_revision(str(revision))]

    def _set_revision(self, revision: str) -> list[Write]:
        if _annotations(self.deployment).get(REVISION) == revision:
            return []
        return [_annotate(DEPLOYMENT, self.deployment, {REVISION: revision})]

    def _scale(self, replica_set: RawObject, size: int) -> Patch:
        meta = replica_set.metadata
        return Patch(
            kind=REPLICA_SET,
            namespace=meta.namespace,
            name=meta.name,
            changes={"metadata": {"annotations": self._scale_marks()}, "spec": {"replicas": size}},
            version=meta.resource_version,
        )

    def _scale_marks(self) -> dict[str, str]:
        return {DESIRED: str(self.replicas), MOST: str(self.replicas + self.bounds.surge)}

    def _sizes(self, sets: list[RawObject]) -> list[Size]:
        return [Size.of(each) for each in sets]


def _annotate(kind: Kind[Any], item: RawObject, annotations: dict[str, str]) -> Patch:
    meta = item.metadata
    return Patch(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        changes={"metadata": {"annotations": annotations}},
        version=meta.resource_version,
    )


def _annotations(item: RawObject) -> dict[str, str]:
    return item.metadata.annotations or {}


def _revision(replica_set: RawObject) -> int:
    text = _annotations(replica_set).get(REVISION, "0")
    return int(text) if text.isdigit() else 0
