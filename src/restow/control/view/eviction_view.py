"""The live cluster as the rules of eviction see it: workloads, budgets, volumes and priority classes.

Goes in: subscriptions. Comes out: what `eviction.eviction_feeder` keeps, and the rules of eviction as of now.
"""

from __future__ import annotations

from functools import partial

from restow.client.change_dispatcher import upsert_or_delete
from restow.client.subscriptions import Subscriptions
from restow.control.view.cluster_view import ClusterView
from restow.eviction.eviction_feeder import EvictionFeeder
from restow.eviction.protections import Protections
from restow.planning.eviction_rules import ConfiguredEvictionRules


class EvictionView(EvictionFeeder):
    """Keeps itself up to date while its subscriptions run."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        super().__init__()
        for kind in self.fed_kinds:
            sink = self.sink_of(kind)
            subscriptions.subscribe(kind, partial(upsert_or_delete, put=sink.put, drop=sink.remove))

    def rules(self, cluster: ClusterView, now: float, protections: Protections) -> ConfiguredEvictionRules:
        """The rules of eviction as of now."""
        return ConfiguredEvictionRules(
            snapshot=cluster.snapshot,
            pod_groups=cluster.pod_groups,
            now=now,
            protections=protections,
            budgets=self.budgets,
            workloads=self.workloads,
            sharing=self.shared_claims,
            claims=self.claims,
            priority_classes=self.priority_classes,
        )
