"""Reading: the facts about one job as the API server has them now, for decisions that something depends on.

The node is read after the reservation that names it, and so is the stop switch, if an eviction may follow: one that is
only tried comes before all of them, so that nothing read is older than its answer. Otherwise all is read at once. What
the scheduler's filters say to the successor in its seat (`arrivals`) is asked last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import Any, Protocol, TypeVar

from restow.client.verbs import Client
from restow.control.migrations.event_handlers import Feed
from restow.control.migrations.eviction_requests import dry_run_eviction, is_server_trouble, refusal_in
from restow.migration.arguments import MigrationArguments
from restow.migration.effective_options import effective_options
from restow.migration.facts import Facts, Permission
from restow.migration.facts_before import FactsBeforeEviction
from restow.migration.reservation import reservation_key
from restow.migration.stop_switch import STOP_NAME, stop_reason
from restow.migration.successor_seats import (
    SeatKey,
    count_unreliable_seats,
    seat_key,
    seats_on_current_node,
    usable_seats,
    why_node_unfit,
)
from restow.migration.successor_spec import possible_successors
from restow.model.kinds import (
    CONFIG_MAP,
    NODE,
    POD,
    POD_MIGRATION_JOB,
    RESERVATION,
    Kind,
)
from restow.model.objects import Node, ObjectReference, Placement, Pod, PodMigrationJob, Reservation
from restow.ports import (
    ApiError,
    Clock,
    Invalid,
    NotFound,
)

T = TypeVar("T")

_ODD_FOR = 5.0
"""Seconds after which something is tried again that was answered in a way that we do not know."""
_REMEMBERED = 60.0
"""Seconds after which nobody goes by what was read for another job."""


class LiveFacts:
    def __init__(self, client: Client, clock: Clock, feed: Feed, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._feed = feed
        self._namespace = namespace
        self._nodes: dict[str, tuple[Node, float]] = {}
        """The nodes that were read last, for whichever job, and when; in that order."""
        self._stopped_by: str | None = None
        """Likewise."""

    def contradicts(self, facts: Facts) -> bool:
        """Whether what was read since, for other jobs, or what the filters say by now, is against evicting the pod."""
        if self._stopped_by is not None:
            return True
        before = FactsBeforeEviction.of(facts)
        if before is None or facts.reservation is None:
            return False
        seats = before.with_reservation(facts.reservation)
        seat = seats.seat
        if seat is None:
            return False
        (node, _), pod = self._nodes.get(seat.node_name, (None, 0.0)), seats.possible_successors[-1]
        if node is None or why_node_unfit(node, pod) is not None:
            return True
        suited = seats.seats_on_fit_nodes
        until = suited[: suited.index(seat) + 1]
        return seat_key(seat) in self._shut_out(facts.reservation, until, pod, facts.jobs_ahead)

    async def facts(
        self, job: PodMigrationJob, arguments: MigrationArguments, *, dry_run_eviction: bool
    ) -> Facts | None:
        """Everything about this very job; None if it is gone."""
        tried = await self._try(job, arguments) if dry_run_eviction else None
        reference, where, pod_at = job.spec.pod_ref, reservation_key(job), self._feed.pod_key(job)
        its_job = self._get(POD_MIGRATION_JOB, job.metadata.name)
        its_pod = self._get(POD, pod_at[1], pod_at[0])
        its_seat = self._get(RESERVATION, where[1], where[0])
        async with _at_once() as begin:
            asked = begin(its_job), begin(its_pod), begin(its_seat)
        found, pod, reservation = asked[0].result(), asked[1].result(), asked[2].result()
        if found is None or found.metadata.uid != job.metadata.uid:
            return None
        if (found.spec.pod_ref, reservation_key(found)) != (reference, where):  # it speaks of others now
            return await self.facts(found, arguments, dry_run_eviction=dry_run_eviction)
        async with _at_once() as begin:
            seats = begin(self._seats_of(found, reservation, pod, dry_run_eviction))
            takers = begin(self._all(self._feed.takers_of(found, reservation)))
            why = begin(self._stopped(dry_run_eviction))
        return self._feed.around(
            Facts(
                job=found,
                options=effective_options(found, arguments),
                now=self._clock.now(),
                pod=pod,
                reservation=reservation,
                nodes=seats.result()[0],
                rejected_seats=seats.result()[1],
                consumers=takers.result(),
                stop_reason=why.result(),
                eviction_dry_run=tried,
                is_fresh=True,
            ),
            arguments,
        )

    async def _try(self, job: PodMigrationJob, arguments: MigrationArguments) -> Permission | None:
        """What the API server says to evicting the pod; None if it is not there to be evicted."""
        reference = job.spec.pod_ref
        try:
            await dry_run_eviction(
                self._client,
                reference.namespace or "",
                reference.name or "",
                reference.uid or "",
                effective_options(job, arguments),
            )
        except NotFound:
            return None
        except ApiError as error:
            answer = refusal_in(error)
            if answer is None and is_server_trouble(error):
                raise
            return answer or Permission(False, str(error), _ODD_FOR)
        return Permission(True)

    async def _stopped(self, trial: bool) -> str | None:
        """As the API server has it, if an eviction may follow."""
        if not trial:
            return self._feed.stopped()
        switch = await self._get(CONFIG_MAP, STOP_NAME, self._namespace)
        self._stopped_by = stop_reason(switch)
        return self._stopped_by

    async def _seats_of(
        self, job: PodMigrationJob, reservation: Reservation | None, pod: Pod | None, trial: bool
    ) -> tuple[dict[str, Node | None], dict[SeatKey, str]]:
        """The nodes of the seats that may be taken, up to the one that would be: so many are for others. Of seats that
        the successor would be kept from, why; asked if an eviction may follow."""
        nodes: dict[str, Node | None] = {}
        shut_out: dict[SeatKey, str] = {}
        if reservation is None or pod is None:
            return nodes, shut_out
        likely = possible_successors(pod, self._feed.template(pod))
        seats, ahead = usable_seats(reservation, likely), self._feed.rivals.jobs_ahead(job)
        enough = len(ahead) + count_unreliable_seats(reservation, seats)
        suited: list[Placement] = []
        for seat in seats:
            name = seat.node_name
            if name not in nodes:
                nodes[name] = await self._node(name)
            node = nodes[name]
            if node is None or why_node_unfit(node, likely[-1]) is not None:
                continue
            suited.append(seat)
            if len(suited) - len(shut_out) <= enough:
                continue
            shut_out = self._shut_out(reservation, suited, likely[-1], ahead) if trial else {}
            if len(suited) - len(shut_out) > enough:
                break
        else:
            shut_out = self._shut_out(reservation, suited, likely[-1], ahead) if trial else {}
        here = seats_on_current_node(reservation, likely) if trial else []
        return nodes, shut_out | self._shut_out(reservation, here, likely[-1], ())

    def _shut_out(
        self, reservation: Reservation, seats: Sequence[Placement], pod: Pod, ahead: Sequence[str]
    ) -> dict[SeatKey, str]:
        """What would keep whoever is made like a pod from seats, were it to come now, after those of jobs before."""
        last = self._feed.arrival(pod)
        before = [self._feed.arrival_of(name) or last for name in ahead]
        spare, now = count_unreliable_seats(reservation, seats), self._clock.now()
        return self._feed.arrivals.rejected_seats(reservation, seats, last, before, spare=spare, now=now)

    async def _node(self, name: str) -> Node | None:
        node, now = await self._get(NODE, name), self._clock.now()
        self._nodes.pop(name, None)
        if node is not None:
            self._nodes[name] = node, now
        for old in [
            name for name, (_, at) in takewhile(lambda one: now - one[1][1] > _REMEMBERED, self._nodes.items())
        ]:
            del self._nodes[old]
        return node

    async def _all(self, references: Iterable[ObjectReference]) -> tuple[Pod, ...]:
        """The pods that are there, whichever life of them is meant."""
        async with _at_once() as begin:
            pods = [begin(self._pod(one)) for one in references]
        return tuple(pod for task in pods if (pod := task.result()) is not None)

    async def _pod(self, reference: ObjectReference) -> Pod | None:
        return await self._get(POD, reference.name or "", reference.namespace)

    async def _get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        if not name or (kind.namespaced and not namespace):
            return None
        try:
            return await self._client.get(kind, name, namespace)
        except (NotFound, Invalid):  # the latter of what cannot be a name
            return None


class _Begin(Protocol):
    def __call__(self, read: Coroutine[Any, Any, T], /) -> asyncio.Task[T]: ...


@asynccontextmanager
async def _at_once() -> AsyncIterator[_Begin]:
    """Reads side by side. If one fails, the others end with it: what they would still say, nobody goes by. Whoever is
    stopped meanwhile is stopped, whatever fails because of that, which is more than a TaskGroup can tell."""
    reads: list[asyncio.Task[Any]] = []

    def begin(read: Coroutine[Any, Any, T], /) -> asyncio.Task[T]:
        reads.append(asyncio.ensure_future(read))
        return reads[-1]

    try:
        yield begin
        if reads:
            await asyncio.wait(reads, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for read in reads:
            read.cancel()
        if reads:
            await asyncio.wait(reads)
        failures = [error for read in reads if not read.cancelled() and (error := read.exception()) is not None]
    if failures:
        raise failures[0]
