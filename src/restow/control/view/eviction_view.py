"""What the rules of eviction go by: who makes pods anew, which budgets cover them, and what volumes they have."""

from __future__ import annotations

from functools import partial
from typing import Any

from restow.client.cache import Change
from restow.client.change_dispatcher import upsert_or_delete
from restow.client.subscriptions import Subscriptions
from restow.control.view.cluster_view import ClusterView
from restow.eviction.budgets import Budgets
from restow.eviction.protections import Protections
from restow.eviction.shared_claims import Sharing
from restow.eviction.workloads import Workloads
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import PersistentVolumeClaim, Pod
from restow.planning.eviction_rules import ConfiguredEvictionRules


class EvictionView:
    def __init__(self, reader: Subscriptions) -> None:
        self.workloads = Workloads()
        self.budgets = Budgets()
        self.sharing = Sharing()
        self.claims: dict[str, dict[str, PersistentVolumeClaim]] = {}
        """By namespace and name."""
        self._classes = reader.subscribe(kinds.PRIORITY_CLASS)
        reader.subscribe(kinds.PERSISTENT_VOLUME_CLAIM, self._claim)
        for kind in kinds.WORKLOADS:
            reader.subscribe(kind, self._workload)
        for kind in kinds.BUDGETS:
            reader.subscribe(kind, partial(self._budget, kind))
        reader.subscribe(kinds.POD, self._pod)

    def priority_classes(self) -> dict[str, int]:
        return {one.metadata.name: one.value for one in self._classes}

    def rules(self, cluster: ClusterView, now: float, protections: Protections) -> ConfiguredEvictionRules:
        """The rules of eviction as of now."""
        return ConfiguredEvictionRules(
            snapshot=cluster.snapshot,
            pod_groups=cluster.roster,
            now=now,
            protections=protections,
            budgets=self.budgets,
            workloads=self.workloads,
            sharing=self.sharing,
            claims=self.claims,
            priority_classes=self.priority_classes(),
        )

    # --- news ---------------------------------------------------------------------------------------------------------

    def _pod(self, change: Change[Pod]) -> None:
        upsert_or_delete(change, self.workloads.put_pod, lambda pod: self.workloads.drop_pod(pod.metadata.uid))
        upsert_or_delete(change, self.sharing.put_pod, lambda pod: self.sharing.drop_pod(pod.metadata.uid))

    def _workload(self, change: Change[Any]) -> None:
        upsert_or_delete(change, self.workloads.put_owner, lambda owner: self.workloads.drop_owner(owner.metadata.uid))

    def _budget(self, kind: Kind[Any], change: Change[Any]) -> None:
        meta = change.object.metadata
        upsert_or_delete(
            change, self.budgets.put, lambda one: self.budgets.drop(kind.kind, meta.namespace or "", meta.name)
        )

    def _claim(self, change: Change[PersistentVolumeClaim]) -> None:
        meta = change.object.metadata
        inside = self.claims.setdefault(meta.namespace or "", {})
        if change.type == "DELETED":
            inside.pop(meta.name, None)
        else:
            inside[meta.name] = change.object
