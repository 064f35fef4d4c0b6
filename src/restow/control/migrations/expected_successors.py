"""Expected successors: what is known of the pod that will take a migrating pod's place.

Goes in: a migrating pod. Comes out: the pod that its controller would create now, its queue, PodGroup and gang, as the
informers show them.
"""

from __future__ import annotations

from restow.control.migrations.migration_cache import MigrationCache
from restow.migration.successor_spec import possible_successors
from restow.model.objects import Pod, PodTemplate
from restow.model.queues import queue_name
from restow.model.reservations.matching import requested_reservation
from restow.scheduling.gang_readiness import GangReadiness
from restow.scheduling.jobs import why_successor_unschedulable
from restow.scheduling.seat_checks.admission_check import IncomingPod


class ExpectedSuccessors:
    """Except for `template` and `successor_of`, the methods take the successor as it is expected to be."""

    def __init__(self, cache: MigrationCache) -> None:
        self._cache = cache

    def template(self, pod: Pod) -> PodTemplate | None:
        """The template that the controller of a migrating pod creates pods from now."""
        return self._cache.workloads.pod_template(pod)

    def successor_of(self, pod: Pod) -> Pod:
        """The pod that the controller of a migrating pod would create now."""
        return possible_successors(pod, self.template(pod))[-1]

    def queue_of(self, successor: Pod) -> str:
        return queue_name(self._cache.group_of(successor), successor)

    def gang_problem(self, successor: Pod) -> str | None:
        """Why the scheduler would not schedule a successor as a member of its gang now."""
        readiness = GangReadiness.of(self._cache.gang_members(successor))
        return why_successor_unschedulable(successor, self._cache.group_of(successor), readiness)

    def requested_reservation(self, successor: Pod) -> str | None:
        """The reservation that a successor or its PodGroup asks for by name."""
        return requested_reservation(successor, self._cache.group_of)

    def incoming_pod(self, successor: Pod) -> IncomingPod:
        """A successor as the scheduler's filters are asked about it; it has the UID of the pod that it replaces."""
        return IncomingPod(successor, self.queue_of(successor), successor.metadata.uid)

    def incoming_pod_of_job(self, name: str) -> IncomingPod | None:
        """The successor of a job's pod; None once that pod is not known any more."""
        job = self._cache.job(name)
        pod = self._cache.pod_by_uid(job.spec.pod_ref.uid or "") if job is not None else None
        return self.incoming_pod(self.successor_of(pod)) if pod is not None else None
