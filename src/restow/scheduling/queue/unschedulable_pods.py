"""Pods that wait for a cluster event: unschedulable and gated ones, by the plugins that refused them.

Goes in: refused pods, and events. Comes out: the pods that an event may help. The pods are grouped by the plugins that
refused them, so that an event that cannot help a group costs one look at it, however many pods are in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.scheduling.cluster_events import ClusterEvent, QueueingHints
from restow.scheduling.queue.queued_pod import QueuedPod, QueueState


class UnschedulablePods:
    def __init__(self, entries: Mapping[str, QueuedPod], hints: QueueingHints) -> None:
        self._entries = entries
        self._hints = hints
        self._by_plugins: dict[frozenset[str], dict[str, None]] = {}
        self._unschedulable: dict[str, None] = {}
        """Without the gated ones, in the order in which they came."""

    def put(self, entry: QueuedPod, state: QueueState) -> None:
        """A pod waits for an event that may help with the plugins that refused it."""
        uid = entry.pod.metadata.uid
        entry.state = state
        entry.waits_for = entry.refused_by
        self._by_plugins.setdefault(entry.refused_by, {})[uid] = None
        if state is QueueState.UNSCHEDULABLE:
            self._unschedulable[uid] = None

    def remove(self, entry: QueuedPod) -> None:
        """A pod does not wait for events any more; harmless if it never did."""
        if entry.waits_for is None:
            return
        uid = entry.pod.metadata.uid
        self._unschedulable.pop(uid, None)
        group = self._by_plugins[entry.waits_for]
        del group[uid]
        if not group:
            del self._by_plugins[entry.waits_for]
        entry.waits_for = None

    def helped_by(self, event: ClusterEvent) -> list[QueuedPod]:
        """The pods that an event may help."""
        groups = [uids for plugins, uids in self._by_plugins.items() if self._hints.may_help_any(plugins, event)]
        waiting = [self._entries[uid] for uids in groups for uid in uids]
        return [entry for entry in waiting if self._hints.is_worth_requeuing(entry.pod, entry.refused_by, event)]

    def oldest(self) -> QueuedPod | None:
        """The unschedulable pod that has waited longest."""
        uid = next(iter(self._unschedulable), None)
        return None if uid is None else self._entries[uid]
