"""Room on nodes that is kept for pods during a session, and given back when it closes.

Goes in: pods nominated to nodes, by earlier sessions or by this one. Comes out: a snapshot in which they are assumed on
their nodes, so that no other pod takes their room; and the same snapshot for a while without some of them, for a pod
that may use the room in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.scheduling.expected_ends import latest_end


class KeptPod(msgspec.Struct, frozen=True):
    """A pod that room is kept for."""

    pod: Pod
    node: str
    until: float | None
    """When the pod will take the room; None if that is not known."""


class KeptRoom:
    def __init__(self, snapshot: Snapshot, now: float, nominated: Sequence[tuple[float, Pod]] = ()) -> None:
        """`nominated` are pods that earlier sessions nominated and that are not tried now, by importance, the most
        important first."""
        self.kept: list[KeptPod] = []
        self._snapshot = snapshot
        self._now = now
        self._nominated = list(nominated)

    def keep_for_nominated(self, importance: float) -> None:
        """Keep the room of pods nominated earlier that are at least this important: as in kube-scheduler, a pod does
        not see nominated pods of lower priority."""
        while self._nominated and self._nominated[0][0] >= importance:
            _, pod = self._nominated.pop(0)
            self.keep(pod, pod.status.nominated_node_name or "")

    def keep(self, pod: Pod, node: str) -> None:
        """Keep room for a pod on a node, unless the node is gone or the pod is on a node already."""
        if self._snapshot.node(node) is not None and pod.metadata.uid not in self._snapshot.pods.known:
            self._snapshot.assume(pod, node, at=self._now)
            self.kept.append(KeptPod(pod, node, None))

    def keep_assumed(self, pod: Pod, node: str, until: float | None) -> None:
        """Keep the room of a pod that is assumed on its node already, until it will take it."""
        self.kept.append(KeptPod(pod, node, until))

    def can_lend_to(self, pods: Sequence[Pod]) -> bool:
        """Whether pods that start now are over before a pod needs the room that is kept for it."""
        return bool(self._lendable_to(pods))

    @contextmanager
    def lent_to(self, pods: Sequence[Pod]) -> Iterator[None]:
        """The snapshot without the pods that need their room only when these pods are over."""
        with self._without(self._lendable_to(pods)):
            yield

    @contextmanager
    def all_lent(self) -> Iterator[None]:
        """The snapshot as if no room were kept."""
        with self._without(list(self.kept)):
            yield

    def give_back(self) -> None:
        """The session is over: nothing is kept any more."""
        for kept in reversed(self.kept):
            self._snapshot.forget(kept.pod)
        self.kept.clear()

    def _lendable_to(self, pods: Sequence[Pod]) -> list[KeptPod]:
        end = latest_end(pods, self._now)
        return [kept for kept in self.kept if end is not None and kept.until is not None and kept.until >= end]

    @contextmanager
    def _without(self, lent: Sequence[KeptPod]) -> Iterator[None]:
        for kept in lent:
            self._snapshot.forget(kept.pod)
        try:
            yield
        finally:
            for kept in lent:
                self._snapshot.assume(kept.pod, kept.node, at=self._now)
