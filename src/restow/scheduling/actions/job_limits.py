"""What a job may take of its queue, and a reservation of what its namespace may hold.

Goes in: a session, a job, and its pods as they are placed, one after the other. Comes out: which pods may not be placed
beside those, with the limit that they would exceed. Which pods of a job are placed is not known before: a sum made in
advance may be about other pods.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.model.cluster import PodClass
from restow.model.objects import Pod
from restow.model.resources import Vector, add_vectors, subtract_vectors
from restow.scheduling.cluster_events import QUEUE, RESERVATION
from restow.scheduling.framework import Cycle, Verdict, unresolvable
from restow.scheduling.jobs import Job
from restow.scheduling.queue_shares import NamespaceShare, credit_of_migrating_pod
from restow.scheduling.session import Session


class JobLimits:
    """What a job takes, beside all that was taken when it was its turn."""

    def __init__(self, session: Session, job: Job) -> None:
        self._job = job
        self._pod_groups = session.pod_groups
        self._shares = session.shares if session.shares.may_refuse(job.queue) else None
        self._share: NamespaceShare | None = None
        self._given_back: Vector = {}
        if job.reservation is not None:
            namespace = job.reservation.metadata.namespace or ""
            self._share = NamespaceShare(session.snapshot, namespace, session.namespace_share)
            self._given_back = credit_of_migrating_pod(session.snapshot, session.pod_groups, job.reservation, job.queue)
        self._taken: Vector = {}
        self._refused: dict[PodClass, Verdict] = {}
        """What is taken never becomes less, so a class of pods that is refused stays refused."""

    def why_none_allowed(self) -> Verdict | None:
        """Why too few pods of the job may be placed, whichever they are."""
        if self._shares is None and self._share is None:
            return None
        job = self._job
        count = 1 if job.is_broken else max(job.min_available - job.placed, 1)
        first = self._refusal(self._sum(job.pods[:count]))
        return self._refusal(self._smallest(count)) if first is not None and len(job.pods) > count else first

    def why_not_allowed(self, cycle: Cycle) -> Verdict | None:
        """Why a pod may not be placed beside those that were placed; None if it may."""
        if self._shares is None and self._share is None:
            return None
        pod_class = cycle.pod_class
        if pod_class not in self._refused:
            refusal = self._refusal(add_vectors(self._taken, self._pod_groups.requests_of(cycle.pod)))
            if refusal is None:
                return None
            self._refused[pod_class] = refusal
        return self._refused[pod_class]

    def take(self, pod: Pod) -> None:
        """A pod was placed."""
        self._taken = add_vectors(self._taken, self._pod_groups.requests_of(pod))

    def _refusal(self, request: Vector) -> Verdict | None:
        over = self._share.why_exceeded(request) if self._share is not None else None
        if over is not None:
            return replace(unresolvable(over), plugin=RESERVATION)
        if self._shares is not None:
            over = self._shares.why_exceeded(self._job.queue, subtract_vectors(request, self._given_back))
        return replace(unresolvable(over), plugin=QUEUE) if over is not None else None

    def _sum(self, pods: list[Pod]) -> Vector:
        total: Vector = {}
        for pod in pods:
            total = add_vectors(total, self._pod_groups.requests_of(pod))
        return total

    def _smallest(self, count: int) -> Vector:
        """The least that so many pods of the job request, of each resource."""
        requests = [self._pod_groups.requests_of(pod) for pod in self._job.pods]
        names = sorted({name for each in requests for name in each})
        return {name: sum(sorted(each.get(name, 0) for each in requests)[:count]) for name in names}
