"""Reading: the facts about one job as the API server has them now, for decisions that something depends on.

The node is read after the reservation that names it, and so is the stop switch, if an eviction may follow: one that is
only tried comes before all of them, so that nothing read is older than its answer. Otherwise all is read at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, TypeVar

from restow.client.verbs import Client
from restow.control.migrations.feed import Feed, reservation_key
from restow.migration.arguments import Arguments
from restow.migration.facts import Answer, Facts, unfit
from restow.migration.seats import seats_elsewhere
from restow.migration.stop import STOP_NAME, stopped
from restow.migration.terms import Terms, terms_of
from restow.model.kinds import CONFIG_MAP, NODE, POD, POD_MIGRATION_JOB, RESERVATION, Kind
from restow.model.objects import Node, ObjectReference, Pod, PodMigrationJob, Reservation
from restow.ports import ApiError, Clock, Forbidden, Invalid, NotFound, TooManyRequests

T = TypeVar("T")

FORBIDDEN_FOR = 30.0
"""Seconds after which something is tried again that was not allowed."""
_BUDGET = "DisruptionBudget"


class Reading:
    def __init__(self, client: Client, clock: Clock, feed: Feed, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._feed = feed
        self._namespace = namespace
        self._nodes: dict[str, Node | None] = {}
        self._stopped_by: str | None = None
        """What was read last, for whichever job."""

    def contradicts(self, facts: Facts, pod: Pod) -> bool:
        """Whether what was read since, for other jobs, says that a pod must not be evicted now."""
        if self._stopped_by is not None:
            return True
        node = self._nodes.get(facts.node.metadata.name) if facts.node is not None else None
        return facts.node is not None and (node is None or unfit(node, pod) is not None)

    async def facts(self, job: PodMigrationJob, arguments: Arguments, *, trial: bool) -> Facts | None:
        """Everything about this very job; None if it is gone."""
        tried = await self._try(job, arguments) if trial else None
        reference, where, pod_at = job.spec.pod_ref, reservation_key(job), self._feed.pod_key(job)
        its_job = self._get(POD_MIGRATION_JOB, job.metadata.name)
        its_seat = self._get(RESERVATION, where[1], where[0])
        its_pod = self._get(POD, pod_at[1], pod_at[0])
        found, pod, reservation = await asyncio.gather(its_job, its_pod, its_seat)
        if found is None or found.metadata.uid != job.metadata.uid:
            return None
        if (found.spec.pod_ref, reservation_key(found)) != (reference, where):  # it speaks of others now
            return await self.facts(found, arguments, trial=trial)
        node, takers, why = await asyncio.gather(
            self._node(reservation, pod),
            self._all(self._feed.takers_of(found, reservation)),
            self._stopped(trial),
        )
        return self._feed.around(
            Facts(
                job=found,
                terms=terms_of(found, arguments),
                now=self._clock.now(),
                pod=pod,
                reservation=reservation,
                node=node,
                takers=takers,
                stopped=why,
                trial=tried,
                fresh=True,
            ),
            arguments,
        )

    async def _try(self, job: PodMigrationJob, arguments: Arguments) -> Answer | None:
        """What the API server says to evicting the pod; None if it is not there to be evicted."""
        reference = job.spec.pod_ref
        try:
            await take_away(
                self._client,
                reference.namespace or "",
                reference.name or "",
                reference.uid or "",
                terms_of(job, arguments),
                dry_run=True,
            )
        except NotFound:
            return None
        except ApiError as error:
            answer = refusal(error)
            if answer is None:
                raise
            return answer
        return Answer(True)

    async def _stopped(self, trial: bool) -> str | None:
        """As the API server has it, if an eviction may follow."""
        if not trial:
            return self._feed.stopped()
        switch = await self._get(CONFIG_MAP, STOP_NAME, self._namespace)
        self._stopped_by = stopped(switch)
        return self._stopped_by

    async def _node(self, reservation: Reservation | None, pod: Pod | None) -> Node | None:
        """The node of the seat that would be taken."""
        if reservation is None or pod is None:
            return None
        seats = seats_elsewhere(reservation, pod)
        name = seats[0].node_name if seats else ""
        node = await self._get(NODE, name)
        self._nodes[name] = node
        return node

    async def _all(self, references: Iterable[ObjectReference]) -> tuple[Pod, ...]:
        """The pods that are there, whichever life of them is meant."""
        found = await asyncio.gather(*(self._pod(one) for one in references))
        return tuple(pod for pod in found if pod is not None)

    async def _pod(self, reference: ObjectReference) -> Pod | None:
        return await self._get(POD, reference.name or "", reference.namespace)

    async def _get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        if not name or (kind.namespaced and not namespace):
            return None
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None


async def take_away(
    client: Client, namespace: str, name: str, uid: str, terms: Terms, *, dry_run: bool = False
) -> None:
    """Evict or delete this very pod, as configured; or only try."""
    if terms.policy == "Delete":
        propagation: Any = terms.propagation
        await client.delete(
            POD, name, namespace, uid=uid, grace_seconds=terms.grace, propagation=propagation, dry_run=dry_run
        )
    else:
        await client.evict(namespace, name, uid=uid, grace_seconds=terms.grace, dry_run=dry_run)


def refusal(error: ApiError) -> Answer | None:
    """The certain no in an error: a budget, or a lack of permission. None if the error says nothing of the kind."""
    if isinstance(error, TooManyRequests):
        details = error.status.details
        causes = [one.message or "" for one in (details.causes if details else None) or () if one.reason == _BUDGET]
        if not causes:
            return None  # the server is busy, which says nothing about the pod
        return Answer(False, f"{error}: {'; '.join(causes)}" if any(causes) else str(error), error.retry_after or 0.0)
    if isinstance(error, Forbidden | Invalid):
        return Answer(False, str(error), FORBIDDEN_FOR)
    return None
