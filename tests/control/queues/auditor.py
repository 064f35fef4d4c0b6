"""An auditor between controllers and their API server: is every lock and every job what a queue may ask for?

- a node is shown as locked for one queue, and never the last that takes pods, or pods of everybody
- what is accepted stays within the ceilings
- no pod is bound to a node that was locked for another queue before, unless a seat was held there or the node is its
  own
- the queue controller writes status of queues and the ceilings, creates jobs and aborts them, and nothing else; jobs
  are for Guaranteed queues, one at a time for a pod, and none is aborted that may have evicted

What changed a moment ago the controllers cannot know yet: such nodes and queues are left out for so long.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from restow.client.verbs import Client
from restow.control.queues.foreign_pods import QUEUE_LABEL
from restow.migration.conditions import is_evicting, is_job_ended
from restow.model import kinds
from restow.model.objects import Node, Pod, Queue
from restow.model.pods import controller_of, find_condition
from restow.model.queues import locked_nodes
from restow.model.resources import parse_amounts
from restow.ports import Api, ApiError, Clock, Request, Response
from restow.queues.admission_policies import CEILINGS_NAME
from restow.queues.node_locks import locks_in_status
from restow.sim.write_log import is_write, name_of
from tests.control.queues.queue_controller_fixture import QUEUE_ANNOTATION

CEILING = 60
A_MOMENT = 45.0
"""Seconds in which a watch that lost something has found it again."""


class Auditor:
    """ports.Api over another one."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self.faults: list[str] = []
        self.audits = 0
        self.jobs = 0
        self.leader_number = 0
        self.nodes_changed = -A_MOMENT
        self.queues_changed = -A_MOMENT
        self.watch = api.watch
        self._api = api
        self._clock = clock
        self._truth = Client(api)
        self._locked_since: dict[tuple[str, str], float] = {}
        """When a queue was first shown with a node."""

    async def call(self, request: Request) -> Response:
        if is_write(request):
            await self._judge_before(request)
        response = await self._api.call(request)
        if is_write(request):
            await self._judge_after(request)
        return response

    def blame(self, what: str) -> None:
        self.faults.append(f"at {self._clock.now():.2f}: {what}")

    def _is_settled(self) -> bool:
        return self._clock.now() - max(self.nodes_changed, self.queues_changed) > A_MOMENT

    # --- what the queue controller does -------------------------------------------------------------------------------

    async def _judge_before(self, request: Request) -> None:
        plural, verb = request.resource.plural, request.verb
        if plural == "queues":
            if (verb, request.subresource) != ("patch", "status"):
                self.blame(f"{name_of(request)} is not the queue controller's to write")
        elif plural == "podmigrationjobs":
            if verb == "create":
                await self._creates(request)
            elif (verb, request.subresource) != ("patch", "status"):
                self.blame(f"{name_of(request)} is not the queue controller's to write")
        elif (plural, verb, request.name) == ("configmaps", "patch", CEILINGS_NAME):
            pass
        elif plural != "events":
            self.blame(f"{name_of(request)} is not the queue controller's to write")

    async def _creates(self, request: Request) -> None:
        self.jobs += 1
        document = msgspec.json.decode(request.body)
        reference, queue = document["spec"]["podRef"], document["metadata"]["labels"][QUEUE_LABEL]
        live = [job for job in (await self._truth.list(kinds.POD_MIGRATION_JOB)).items if not is_job_ended(job)]
        same = [job for job in live if job.spec.pod_ref.uid == reference["uid"]]
        name = document["metadata"]["name"]
        if any(job.metadata.name != name for job in same):
            self.blame(f"a second job for pod {reference['name']}")
        found = {one.metadata.name: one for one in (await self._truth.list(kinds.QUEUE)).items}.get(queue)
        if self._clock.now() - self.queues_changed <= A_MOMENT:
            return
        guarantee = found.spec.guarantee if found else None
        if guarantee is None or guarantee.policy != "Guaranteed":
            self.blame(f"a job for queue {queue}, which is not Guaranteed: {guarantee}")

    async def _judge_after(self, request: Request) -> None:
        if request.resource.plural == "podmigrationjobs" and request.subresource == "status":
            job = await self._truth.get(kinds.POD_MIGRATION_JOB, request.name or "")
            if is_evicting(job.status):
                self.blame(f"job {request.name} was aborted after its eviction")
        if request.resource.plural == "queues":
            await self.audit(settled=self._is_settled())

    # --- what is shown ------------------------------------------------------------------------------------------------

    async def audit(self, *, settled: bool) -> None:
        self.audits += 1
        queues = (await self._truth.list(kinds.QUEUE)).items
        nodes = (await self._truth.list(kinds.NODE)).items
        shown = locks_in_status(queues)
        every = [node for names in shown.values() for node in names]
        now = self._clock.now()
        pairs = {(name, node) for name, names in shown.items() for node in names}
        self._locked_since = {pair: self._locked_since.get(pair, now) for pair in sorted(pairs)}
        if len(every) != len(set(every)):
            self.blame(f"a node is locked twice: {shown}")
        if not settled:
            return
        open_nodes = {node.metadata.name: node for node in nodes if _takes_pods(node)}
        for some in ({*open_nodes}, {name for name, node in open_nodes.items() if not node.spec.taints}):
            if some and some <= set(every):
                self.blame(f"the last node is locked: {shown}")
        self._within_ceilings(queues, nodes)

    def _within_ceilings(self, queues: list[Queue], nodes: list[Node]) -> None:
        total = sum(parse_amounts(node.status.allocatable)["cpu"] for node in nodes)
        asked = 0
        for queue in queues:
            rejected = find_condition(queue.status.conditions, "Rejected")
            guarantee = queue.spec.guarantee
            if rejected is None or rejected.status == "True" or guarantee is None:
                continue
            share = int(len(nodes) * (guarantee.percentage.value or 0)) if guarantee.percentage else 0
            by_share = total * share // max(len(nodes), 1)
            asked += max(by_share, parse_amounts(guarantee.resource).get("cpu", 0))
        if asked * 100 > total * CEILING:
            self.blame(f"{asked} of {total} are guaranteed")

    # --- what the scheduler does --------------------------------------------------------------------------------------

    async def binds(self, request: Request) -> None:
        """A pod is about to be bound; the scheduler has heard of whatever is a second old."""
        body: dict[str, Any] = msgspec.json.decode(request.body)
        node = body["target"]["name"]
        if "restow.sh/reservation" in body["metadata"].get("annotations", {}):
            return
        pod = await self._truth.get(kinds.POD, request.name or "", request.namespace)
        for (queue, locked), since in self._locked_since.items():
            if locked == node and self._clock.now() - since > 1.0 and _is_foreign(pod, queue):
                queues = (await self._truth.list(kinds.QUEUE)).items
                if any(one.metadata.name == queue and node in locked_nodes(one) for one in queues):
                    self.blame(f"pod {request.name} was bound to {node}, which is locked for {queue}")


class Scheduling:
    """The scheduler's way to the API server, past the auditor."""

    def __init__(self, api: Api, auditor: Auditor) -> None:
        self.watch = api.watch
        self._api = api
        self._auditor = auditor

    async def call(self, request: Request) -> Response:
        if request.subresource == "binding":
            with suppress(ApiError):  # the pod is gone: nothing will be bound
                await self._auditor.binds(request)
        return await self._api.call(request)


def _is_foreign(pod: Pod, queue: str) -> bool:
    owner = controller_of(pod)
    mine = (pod.metadata.annotations or {}).get(QUEUE_ANNOTATION, "default")
    return mine != queue and not (owner is not None and owner.kind == "DaemonSet")


def _takes_pods(node: Node) -> bool:
    ready = find_condition(node.status.conditions, "Ready")
    return not node.spec.unschedulable and ready is not None and ready.status == "True"
