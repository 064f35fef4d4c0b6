"""The queues of the cluster, with limits that can be read.

Goes in: queues as the API shows them. Comes out: the queues by name, and what each is guaranteed.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from restow.model.guarantees import ClusterCapacity, GuaranteeRequest, is_rejected, limit_problems, read_guarantee
from restow.model.objects import ObjectMeta, Queue
from restow.model.queues import DEFAULT_QUEUE, is_open
from restow.model.resources import Vector


class QueueCache:
    """The default queue always exists: without limits, unless a Queue of that name was created."""

    def __init__(self) -> None:
        self.by_name: dict[str, Queue] = {DEFAULT_QUEUE: Queue(metadata=ObjectMeta(name=DEFAULT_QUEUE))}
        self.unreadable: dict[str, str] = {}
        """Queues with limits that cannot be read, and what is wrong with them: what they may take is not known."""
        self._guarantees: tuple[ClusterCapacity, dict[str, Vector]] | None = None

    def apply(self, queue: Queue) -> None:
        name, problems = queue.metadata.name, limit_problems(queue)
        if name == DEFAULT_QUEUE and queue.metadata.deletion_timestamp:
            self.remove(queue)
            return
        self._guarantees = None
        self.unreadable.pop(name, None)
        if problems:
            self.unreadable[name] = "; ".join(map(str, problems))
            queue = replace(queue, spec=replace(queue.spec, capability=None, deserved=None, guarantee=None))
        self.by_name[name] = queue

    def remove(self, queue: Queue) -> None:
        self._guarantees = None
        self.unreadable.pop(queue.metadata.name, None)
        self.by_name.pop(queue.metadata.name, None)
        self.by_name.setdefault(DEFAULT_QUEUE, Queue(metadata=ObjectMeta(name=DEFAULT_QUEUE)))

    @property
    def is_usage_limited(self) -> bool:
        """Whether it matters what a queue uses: there are several, or the only one is limited."""
        if len(self.by_name) > 1 or self.unreadable:
            return True
        return any(queue.spec.capability or queue.spec.parent or queue.status.state for queue in self.by_name.values())

    def guarantees(self, cluster: ClusterCapacity) -> Mapping[str, Vector]:
        """What each open queue is guaranteed; a guarantee that was rejected, or is to be, counts for nothing."""
        if self._guarantees is None or self._guarantees[0] != cluster:
            queues = [queue for queue in self.by_name.values() if is_open(queue) and not is_rejected(queue)]
            requests = {queue.metadata.name: read_guarantee(queue, cluster) for queue in queues}
            granted = {
                name: request.amounts for name, request in requests.items() if isinstance(request, GuaranteeRequest)
            }
            self._guarantees = (cluster, granted)
        return self._guarantees[1]
