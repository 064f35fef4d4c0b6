"""The scheduler's cache: the cluster as its watches, its own writes and its assumptions show it.

Goes in: the informers of the process. Comes out: the snapshot that sessions decide on and the PodGroup cache, as fresh
as the watches. The simple kinds are kept here; `event_handlers` keeps nodes, pods and reservations, because a change to
one of those also concerns the scheduling queue.
"""

from __future__ import annotations

from typing import Any, Final

from restow.client.shared_informers import SharedInformers
from restow.client.subscriptions import Subscriptions
from restow.control.scheduler.change_signal import ChangeSignal
from restow.control.view import ClusterView
from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Pod
from restow.model.pods import is_finished, scheduler_of

_SIMPLE_KINDS: Final[tuple[Kind[Any], ...]] = (
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    *kinds.STORAGE,
    *kinds.OWNERS,
    kinds.QUEUE,
    kinds.POD_GROUP,
)


class SchedulerCache:
    def __init__(self, informers: SharedInformers, scheduler_names: frozenset[str]) -> None:
        self.signal = ChangeSignal()
        self.scheduler_names = scheduler_names
        """Pods and reservations with one of these scheduler names are ours to place."""
        self.subscriptions = Subscriptions(informers, after_event=self.signal.notify_all)
        self._view = ClusterView(self.subscriptions, _SIMPLE_KINDS)
        self.feeder = self._view.feeder
        self.snapshot, self.pod_groups = self._view.snapshot, self._view.pod_groups
        self._pods = self.subscriptions.subscribe(kinds.POD)

    def is_ours(self, pod: Pod) -> bool:
        return scheduler_of(pod) in self.scheduler_names

    def note_pods_seen(self) -> None:
        """Tell the snapshot up to which resourceVersion the pods were seen; to be called between two events."""
        self._view.note_pods_seen()

    def latest(self, pod: Pod) -> Pod | None:
        """This pod (by UID) as the watch last showed it; None if it is gone."""
        latest = self._pods.get(pod.metadata.name, pod.metadata.namespace)
        return latest if latest is not None and latest.metadata.uid == pod.metadata.uid else None

    def is_unseen(self, pod: Pod) -> bool:
        """Whether a pod from a live read is in a version that the cache does not have."""
        occupant = self.snapshot.pods.known.get(pod.metadata.uid)
        if occupant is not None:
            known: Pod | None = occupant.pod
        else:  # a finished pod takes no room, so the snapshot has forgotten it: the informer still has it
            known = self.latest(pod) if is_finished(pod) else None
        return known is None or known.metadata.resource_version != pod.metadata.resource_version
