"""An auditor between the migration controller and its API server: is everything that it does justified by what it read?

2  no eviction unless the reservation was read as Available, for the pod's successor and large enough, and
   after that its node as fit and no younger than the seat; it is of the pod that the job names, by UID, and it was
   recorded as intended before
3  no reservation is deleted of which the pod is leaving or gone, nor one that was given to a job
6  no eviction unless the stop switch was read as off, within a minute; the budget has room, or the server refuses
9  no eviction of a pod that was read as never to be evicted, or as a bare pod
-  success only with a successor that was read, or shown by a watch, as Ready
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import msgspec

from restow.client.verbs import Client
from restow.eviction.costs import NEVER_EVICT, eviction_cost
from restow.migration.conditions import is_condition_true, is_evicting
from restow.migration.reservation import is_made_for_job
from restow.migration.stop_switch import stop_reason
from restow.model import kinds
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import ConfigMap, Node, Pod, PodMigrationJob, Reservation
from restow.model.pods import is_ready, is_terminating
from restow.model.reservations.owners import Owners
from restow.model.reservations.reservation_annotations import migrating_pod
from restow.model.resources import pod_requests, template_requests, vector_fits
from restow.model.times import parse_time
from restow.ports import Api, ApiError, Clock, NotFound, Request, Response
from restow.sim.write_log import is_write, name_of

_TYPES: dict[str, Any] = {
    "pods": Pod,
    "nodes": Node,
    "reservations": Reservation,
    "configmaps": ConfigMap,
    "podmigrationjobs": PodMigrationJob,
}
Seen = tuple[int, float, Any]
"""When something was read, in calls and in seconds that no clock can change, and what it was; None if it was not
there."""


class _Pods(msgspec.Struct):
    items: list[Pod]


class _Shown(msgspec.Struct):
    object: Pod


class MigrationAuditor:
    """ports.Api over another one; `truth` is the server itself."""

    def __init__(self, api: Api, truth: Api, clock: Clock, faults: list[str]) -> None:
        self.faults = faults
        self.evictions = 0
        self._api = api
        self._clock = clock
        self._truth = Client(truth)
        self._calls = 0
        self._intended: dict[str, PodMigrationJob] = {}
        """The jobs as they were when an eviction was recorded, by the UID of the pod."""
        self._seen: dict[tuple[str, str | None, str | None], Seen] = {}
        self._first: dict[tuple[str, str], int] = {}
        """When a version of an object was first read, in calls, by the UID and the version."""
        self._arrived: set[str] = set()
        """UIDs of pods that were shown as Ready, or as done with their work."""

    async def call(self, request: Request) -> Response:
        self._calls += 1
        if is_write(request):
            await self._judge(request)
        try:
            response = await self._api.call(request)
        except NotFound:
            self._note(request, None)
            raise
        if request.verb == "get" and request.resource.plural in _TYPES:
            self._note(request, msgspec.json.decode(response.body, type=_TYPES[request.resource.plural]))
        if request.verb == "list" and request.resource.plural == "pods":
            for pod in msgspec.json.decode(response.body, type=_Pods).items:
                self._show(pod)
        return response

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if request.resource.plural == "pods":
                with suppress(msgspec.ValidationError):  # what is no pod: bookmarks, and errors
                    self._show(msgspec.json.decode(event, type=_Shown).object)
            yield event

    def _show(self, pod: Pod) -> None:
        if is_ready(pod) or pod.status.phase == "Succeeded":
            self._arrived.add(pod.metadata.uid)

    def _note(self, request: Request, item: Any) -> None:
        if isinstance(item, Pod):
            self._show(item)
        if request.verb == "get":
            if item is not None:
                self._first.setdefault((item.metadata.uid, item.metadata.resource_version), self._calls)
            now = asyncio.get_running_loop().time()
            self._seen[request.resource.plural, request.namespace, request.name] = (self._calls, now, item)

    def _read(self, plural: str, name: str | None, namespace: str | None = None) -> Seen:
        return self._seen.get((plural, namespace, name), (-1, 0.0, None))

    async def _judge(self, request: Request) -> None:
        plural = request.resource.plural
        if request.subresource == "eviction":
            await self._eviction(request)
        elif request.verb == "delete" and plural == "reservations":
            await self._release(request)
        elif request.subresource == "status" and plural == "podmigrationjobs":
            with suppress(NotFound):
                await self._readiness(request)

    def _blame(self, request: Request, what: str) -> None:
        self.faults.append(f"at {self._clock.now():.2f} {name_of(request)}: {what}")

    async def _eviction(self, request: Request) -> None:
        self.evictions += 1
        uid = msgspec.json.decode(request.body)["deleteOptions"]["preconditions"]["uid"]
        jobs = (await self._truth.list(kinds.POD_MIGRATION_JOB)).items
        if uid in self._intended:  # whatever happened to the job in this very moment
            meant = [self._intended[uid]]
        else:
            meant = [job for job in jobs if job.spec.pod_ref.uid == uid and is_evicting(job.status)]
        if not meant:
            self._blame(request, "it was not recorded before")
        _, when, switch = self._read("configmaps", "restow-stop", "restow-system")
        age = asyncio.get_running_loop().time() - when
        if stop_reason(switch) is not None or age > 60:
            self._blame(request, f"the switch was read {age:.2f} s ago: {switch}")
        _, _, pod = self._read("pods", request.name, request.namespace)
        if pod is not None and (eviction_cost(pod) == NEVER_EVICT or not pod.metadata.owner_references):
            self._blame(request, f"it must not be evicted, or no controller recreates it: {pod.metadata}")
        if all(job.spec.mode != "EvictDirectly" for job in meant):
            problems = [await self._seat(job, request) for job in meant]
            if all(problems):
                self._blame(request, str(problems))

    async def _seat(self, job: PodMigrationJob, request: Request) -> str | None:
        options = job.spec.reservation_options
        reference = options.reservation_ref if options else None
        name = reference.name if reference else None
        _, _, found = self._read("reservations", name, request.namespace)
        if found is None or found.status.state.phase != "Available":
            return f"reservation {name} was read as {found.status if found else None}"
        _, _, pod = self._read("pods", request.name, request.namespace)
        free = [one.node_name for one in found.status.placements or () if one.pod_ref is None]
        seats = [one for one in free if pod is None or one != pod.spec.node_name]
        if not seats:
            return f"no seat is free: {found.status.placements}"
        if pod is not None and not await self._may_take(pod, found):
            return f"reservation {name} is not for the successor of {request.name}: {found.spec}"
        problems = [self._unfit(one, job, found) for one in sorted(set(seats))]
        return "; ".join(map(str, problems)) if all(problems) else None

    def _unfit(self, name: str, job: PodMigrationJob, found: Reservation) -> str | None:
        """Why a seat must not be relied on, by what was read of its node."""
        number = self._first[found.metadata.uid, found.metadata.resource_version]  # read again, it says the same
        later, _, node = self._read("nodes", name)
        if node is None or node.spec.unschedulable or later < number:
            return f"node {name} was read as {node}, {later - number} calls later"
        made, kept = node.metadata.creation_timestamp or "", found.status.state.last_transition_time or ""
        if parse_time(made) > parse_time(kept) and is_made_for_job(found, job):
            return f"node {name} was made at {made}, and the seat kept on it at {kept}"
        return None

    async def _may_take(self, pod: Pod, reservation: Reservation) -> bool:
        """Whether a pod like this one may take a seat, by owners, by the UID of the migrating pod, and by its size."""
        owner_chains = OwnerChains(UndoLog())
        for owner in (await self._truth.list(kinds.REPLICA_SET)).items:
            owner_chains.put(owner.metadata)
        mine = Owners.of(reservation.spec.owners or ()).matches(pod, owner_chains)
        task = (reservation.spec.tasks or [])[0]
        large_enough = vector_fits(pod_requests(pod), template_requests(task.template.spec))
        return mine and migrating_pod(reservation) in (None, pod.metadata.uid) and large_enough

    async def _release(self, request: Request) -> None:
        try:
            found = await self._truth.get(kinds.RESERVATION, request.name or "", request.namespace)
        except ApiError:
            return
        if not found.metadata.name.startswith("restow-"):
            self._blame(request, "it was given to the job")
        asked = msgspec.json.decode(request.body or b"{}").get("preconditions", {}).get("resourceVersion")
        if asked not in (None, found.metadata.resource_version):
            return  # it was decided about another version, and the server refuses it
        jobs = (await self._truth.list(kinds.POD_MIGRATION_JOB)).items
        uids = {migrating_pod(found), *(job.spec.pod_ref.uid for job in jobs if is_made_for_job(found, job))}
        seen = [item for _, _, item in self._seen.values() if isinstance(item, Pod) and item.metadata.uid in uids]
        held = found.status.state.phase in ("Available", "Waiting")
        if held and not any(not is_terminating(pod) for pod in seen):
            self._blame(request, "its pod was not read as staying")

    async def _readiness(self, request: Request) -> None:
        status = msgspec.json.decode(request.body).get("status") or {}
        said = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        successor = status.get("podRef") or {}
        job = await self._truth.get(kinds.POD_MIGRATION_JOB, request.name or "")
        if any(one.get("reason") == "Evicting" for one in status.get("conditions") or ()):
            self._intended[job.spec.pod_ref.uid or ""] = job
        if said.get("BoundPodReady") != "True":
            if status.get("phase") == "Succeed" and successor and job.spec.mode != "EvictDirectly":
                self._blame(request, "no successor was recorded as Ready")
            return
        if not is_condition_true(job.status, "BoundPodReady") and successor.get("uid") not in self._arrived:
            self._blame(request, f"its successor was never seen Ready: {successor}")
