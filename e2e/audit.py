"""An audit of moves from the watch events of the API server alone, in the order of their resourceVersions.

Goes in: every event of the pods and Reservations of a namespace, and of all jobs. Comes out: what was wrong, one
sentence each. What our own status says is not believed: a pod leaves when the server marks it so, and a PodDisruption-
Budget holds if so many pods of its workload are Ready and not leaving after every single event.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

from e2e.cluster import following, is_running
from restow.client.cache import Change
from restow.client.informer import Informer
from restow.client.verbs import Client
from restow.model.kinds import POD, POD_MIGRATION_JOB, RESERVATION
from restow.model.objects import Pod, PodMigrationJob, Reservation
from restow.model.reservations.reservation_annotations import migrating_pod

Item = Pod | Reservation | PodMigrationJob
Event = tuple[int, str, Item]
"""The version of an object, what became of it, and the object."""
SEAT = "restow.sh/reservation"


class Audit:
    """Records from the beginning; `faults` is asked at the end."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.pods = Informer(client, POD, rng=random.Random(1), namespace=namespace)
        self.reservations = Informer(client, RESERVATION, rng=random.Random(2), namespace=namespace)
        self.jobs = Informer(client, POD_MIGRATION_JOB, rng=random.Random(3))
        self._events: list[Event] = []
        self.pods.subscribe(self._record)
        self.reservations.subscribe(self._record)
        self.jobs.subscribe(self._record)

    def _record(self, change: Change[Pod] | Change[Reservation] | Change[PodMigrationJob]) -> None:
        item: Item = change.object
        self._events.append((int(item.metadata.resource_version or 0), change.type, item))

    def faults(self, *, least: int, per_node: int | None) -> list[str]:
        return faults(self._events, least=least, per_node=per_node)


def faults(events: Iterable[Event], *, least: int, per_node: int | None) -> list[str]:
    """What was wrong, if each app needs so many pods once it had more, and so few of a node may move at once."""
    return list(_Replay(least, per_node).of(sorted(events, key=lambda event: event[0])))


class _Replay:
    def __init__(self, least: int, per_node: int | None) -> None:
        self._least = least
        self._per_node = per_node
        self._pods: dict[str, Pod] = {}
        self._reservations: dict[str, Reservation] = {}
        self._migrating_uids: dict[str, str] = {}
        """UIDs of pods that jobs under way move, by job."""
        self._healthy: Counter[str] = Counter()
        self._whole: set[str] = set()
        """Apps that had more than they need."""

    def of(self, events: list[Event]) -> Iterator[str]:
        for version, change, item in events:
            if isinstance(item, Pod):
                accusations = self._pod(change, item)
            elif isinstance(item, Reservation):
                _put(self._reservations, item.metadata.uid, item, change)
                accusations = iter(())
            else:
                accusations = self._job(change, item)
            yield from (f"at version {version}: {fault}" for fault in accusations)

    def _pod(self, change: str, pod: Pod) -> Iterator[str]:
        old = self._pods.get(pod.metadata.uid)
        if _leaves(change, pod) and (old is None or not _leaves("", old)):
            yield from self._seatless(old or pod)
        yield from _unplaced(pod)
        _put(self._pods, pod.metadata.uid, pod, change)
        app = (pod.metadata.labels or {}).get("app", "")
        self._healthy[app] += (change != "DELETED" and is_running(pod)) - (old is not None and is_running(old))
        if self._healthy[app] > self._least:
            self._whole.add(app)
        elif self._healthy[app] < self._least and app in self._whole:
            yield f"only {self._healthy[app]} pods of {app} are healthy, its budget wants {self._least}"

    def _seatless(self, pod: Pod) -> Iterator[str]:
        """Whether a pod that begins to leave has nowhere to go to."""
        kept = [
            reservation for reservation in self._reservations.values() if migrating_pod(reservation) == pod.metadata.uid
        ]
        free = [
            seat
            for reservation in kept
            if reservation.status.state.phase == "Available" and reservation.metadata.deletion_timestamp is None
            for seat in reservation.status.placements or ()
            if seat.pod_ref is None and seat.node_name != pod.spec.node_name
        ]
        if not free:
            yield f"pod {pod.metadata.name} leaves, its seats are {[reservation.status for reservation in kept]}"

    def _job(self, change: str, job: PodMigrationJob) -> Iterator[str]:
        name = job.metadata.name
        self._migrating_uids.pop(name, None)
        if change == "DELETED" or job.status.phase != "Running":
            return
        self._migrating_uids[name] = job.spec.pod_ref.uid or ""
        there = (self._pods.get(uid) for uid in self._migrating_uids.values())
        count = Counter(pod.spec.node_name for pod in there if pod is not None)
        if self._per_node is not None:
            yield from (f"{most} pods of {node} move" for node, most in count.items() if most > self._per_node)


def _put(items: dict[str, Reservation] | dict[str, Pod], uid: str, item: Reservation | Pod, change: str) -> None:
    if change == "DELETED":
        items.pop(uid, None)
    else:
        items[uid] = item  # type: ignore[assignment]


def _leaves(change: str, pod: Pod) -> bool:
    """Whether the server has let a pod be evicted, or deleted."""
    is_announced = any(condition.type == "DisruptionTarget" for condition in pod.status.conditions or ())
    return change == "DELETED" or is_announced or pod.metadata.deletion_timestamp is not None


def _unplaced(pod: Pod) -> Iterator[str]:
    """Whether no node had room for a pod; a binding that was interrupted is another matter."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            yield f"pod {pod.metadata.name} waits for a seat: {condition.message}"


@asynccontextmanager
async def audit(client: Client, namespace: str) -> AsyncIterator[Audit]:
    made = Audit(client, namespace)
    async with AsyncExitStack() as stack:
        for informer in (made.pods, made.reservations, made.jobs):
            await stack.enter_async_context(following(informer))
        yield made
