"""A pod in the scheduling queue, and where it is (kube-scheduler's QueuedPodInfo)."""

from __future__ import annotations

import enum
from typing import Any

from restow.model.objects import Pod
from restow.scheduling.framework import Verdict

INITIAL_BACKOFF = 1.0
MAX_BACKOFF = 10.0


class QueueState(enum.Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


class QueuedPod:
    __slots__ = (
        "errors",
        "failed_with_error",
        "gated_by",
        "is_requeued",
        "is_updated",
        "pod",
        "position",
        "queued_at",
        "refusals",
        "refused_by",
        "state",
        "ticket",
        "waits_for",
    )

    def __init__(self, pod: Pod, now: float) -> None:
        self.pod = pod
        self.state = QueueState.ACTIVE
        self.queued_at = now
        """When it came, or when its last attempt ended."""
        self.position: Any = ()
        """Its place in the order of the queue, as computed last."""
        self.ticket = 0
        """The number of its newest row in the heap of its state; rows with another number are stale."""
        self.refusals = 0
        self.errors = 0
        self.failed_with_error = False
        """Whether its last attempt ended with an error, not with a refusal."""
        self.refused_by: frozenset[str] = frozenset()
        """The plugins that refused it last."""
        self.gated_by: Verdict | None = None
        """The verdict that keeps it out of the queue."""
        self.waits_for: frozenset[str] | None = None
        """The plugins under which it is listed among the pods that wait for an event."""
        self.is_updated = False
        """Whether it changed during its attempt."""
        self.is_requeued = False
        """Whether a cluster event has requeued it since its last attempt."""

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def ready_at(self) -> float:
        """When its back-off ends: 1 s, doubled with every failure of the last kind, up to 10 s."""
        failures = self.errors if self.failed_with_error else self.refusals
        if failures == 0:
            return self.queued_at
        return self.queued_at + float(min(INITIAL_BACKOFF * 2 ** min(failures - 1, 30), MAX_BACKOFF))
