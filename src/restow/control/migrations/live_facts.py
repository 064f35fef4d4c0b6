"""Live facts: the facts about one job as the API server has them now, for decisions that something depends on.

Goes in: a job. Comes out: fresh facts. The order of the reads matters where one answer is about another:

1. the dry run of the eviction, if one may follow: nothing that is read after it is older than its answer;
2. the job, its pod and its reservation, side by side;
3. what they name: the nodes of the seats, the consumers, and the stop switch, side by side;
4. what the scheduler's filters say about the successor in its seat, by what the informers have shown until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import takewhile
from typing import Any, Protocol, TypeVar

from restow.control.migrations.cached_facts import CachedFacts
from restow.control.migrations.conflicting_jobs import ConflictingJobs
from restow.control.migrations.dependencies import MigrationDependencies
from restow.control.migrations.eviction_requests import dry_run_eviction, is_server_trouble, refusal_in
from restow.control.migrations.expected_successors import ExpectedSuccessors
from restow.control.migrations.migration_cache import MigrationCache
from restow.control.migrations.successor_fit import SuccessorFit
from restow.migration.arguments import MigrationArguments
from restow.migration.effective_options import effective_options
from restow.migration.facts import Facts, WriteAnswer
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
from restow.model.kinds import CONFIG_MAP, NODE, POD, POD_MIGRATION_JOB, RESERVATION, Kind
from restow.model.objects import Node, ObjectReference, Placement, Pod, PodMigrationJob, Reservation
from restow.ports import ApiError, Invalid, NotFound

T = TypeVar("T")

_RETRY_UNKNOWN_ANSWER = 5.0
"""Seconds after which a dry run is repeated that was answered in a way that we do not know."""
_NODE_READS_KEPT = 60.0
"""Seconds for which a node that was read for one job is remembered for the others."""


class LiveFacts:
    def __init__(
        self,
        dependencies: MigrationDependencies,
        cache: MigrationCache,
        cached_facts: CachedFacts,
        conflicts: ConflictingJobs,
        successors: ExpectedSuccessors,
        fit: SuccessorFit,
    ) -> None:
        self._client = dependencies.client
        self._clock = dependencies.clock
        self._namespace = dependencies.settings.namespace
        self._cache = cache
        self._cached_facts = cached_facts
        self._conflicts = conflicts
        self._successors = successors
        self._fit = fit
        self._nodes: dict[str, tuple[Node, float]] = {}
        """The nodes that were read last, for any job, and when; in the order of those times."""
        self._stop_reason: str | None = None
        """The stop switch as it was read last, for any job."""

    def contradicts(self, facts: Facts) -> bool:
        """Whether what was read since, for other jobs, or what the filters say by now, speaks against the eviction."""
        if self._stop_reason is not None:
            return True
        before = FactsBeforeEviction.of(facts)
        if before is None or facts.reservation is None:
            return False
        seats = before.with_reservation(facts.reservation)
        seat = seats.seat
        if seat is None:
            return False
        (node, _), successor = self._nodes.get(seat.node_name, (None, 0.0)), seats.possible_successors[-1]
        if node is None or why_node_unfit(node, successor) is not None:
            return True
        suited = seats.seats_on_fit_nodes
        until = suited[: suited.index(seat) + 1]
        return seat_key(seat) in self._rejected_seats(facts.reservation, until, successor, facts.jobs_ahead)

    async def read(self, job: PodMigrationJob, arguments: MigrationArguments, *, dry_run: bool) -> Facts | None:
        """The facts about this job; None if it is gone. With a dry run if the eviction may follow."""
        # 1. The dry run.
        permission = await self._dry_run(job, arguments) if dry_run else None
        # 2. The job, its pod and its reservation.
        pod_reference, reservation_at = job.spec.pod_ref, reservation_key(job)
        pod_at = self._cache.pod_key(job)
        get_job = self._get(POD_MIGRATION_JOB, job.metadata.name)
        get_pod = self._get(POD, pod_at[1], pod_at[0])
        get_reservation = self._get(RESERVATION, reservation_at[1], reservation_at[0])
        async with _side_by_side() as begin:
            job_read, pod_read, reservation_read = begin(get_job), begin(get_pod), begin(get_reservation)
        newest, pod, reservation = job_read.result(), pod_read.result(), reservation_read.result()
        if newest is None or newest.metadata.uid != job.metadata.uid:
            return None
        if (newest.spec.pod_ref, reservation_key(newest)) != (pod_reference, reservation_at):
            # The job names another pod or reservation now, so the wrong ones were read.
            return await self.read(newest, arguments, dry_run=dry_run)
        # 3. and 4. What they name.
        async with _side_by_side() as begin:
            seats_read = begin(self._read_seats(newest, reservation, pod, ask_filters=dry_run))
            consumers_read = begin(self._read_pods(self._cache.consumers_of(newest, reservation)))
            stop_read = begin(self._read_stop_switch(dry_run))
        nodes, rejected_seats = seats_read.result()
        facts = Facts(
            job=newest,
            options=effective_options(newest, arguments),
            now=self._clock.now(),
            pod=pod,
            reservation=reservation,
            nodes=nodes,
            rejected_seats=rejected_seats,
            consumers=consumers_read.result(),
            stop_reason=stop_read.result(),
            eviction_dry_run=permission,
            is_fresh=True,
        )
        return self._cached_facts.complete(facts, arguments)

    async def _dry_run(self, job: PodMigrationJob, arguments: MigrationArguments) -> WriteAnswer | None:
        """The API server's answer to a dry run of the eviction; None if the pod is not there."""
        pod = job.spec.pod_ref
        try:
            await dry_run_eviction(
                self._client, pod.namespace or "", pod.name or "", pod.uid or "", effective_options(job, arguments)
            )
        except NotFound:
            return None
        except ApiError as error:
            refusal = refusal_in(error)
            if refusal is None and is_server_trouble(error):
                raise
            return refusal or WriteAnswer(False, str(error), _RETRY_UNKNOWN_ANSWER)
        return WriteAnswer(True)

    async def _read_stop_switch(self, may_evict: bool) -> str | None:
        """Why evictions are stopped: as the API server has it if one may follow, else as last seen."""
        if not may_evict:
            return self._cache.stop_reason()
        switch = await self._get(CONFIG_MAP, STOP_NAME, self._namespace)
        self._stop_reason = stop_reason(switch)
        return self._stop_reason

    # --- seats --------------------------------------------------------------------------------------------------------

    async def _read_seats(
        self, job: PodMigrationJob, reservation: Reservation | None, pod: Pod | None, *, ask_filters: bool
    ) -> tuple[dict[str, Node | None], dict[SeatKey, str]]:
        """The nodes of the usable seats, up to the seat that would be the successor's; and the seats that the filters
        would refuse to the successor, if they are asked."""
        nodes: dict[str, Node | None] = {}
        rejected: dict[SeatKey, str] = {}
        if reservation is None or pod is None:
            return nodes, rejected
        possible = possible_successors(pod, self._successors.template(pod))
        seats, ahead = usable_seats(reservation, possible), self._conflicts.jobs_ahead(job)
        # The seats before the successor's own: those of the jobs ahead, and as many as cannot be relied on.
        enough = len(ahead) + count_unreliable_seats(reservation, seats)
        suited: list[Placement] = []
        for seat in seats:
            name = seat.node_name
            if name not in nodes:
                nodes[name] = await self._read_node(name)
            node = nodes[name]
            if node is None or why_node_unfit(node, possible[-1]) is not None:
                continue
            suited.append(seat)
            if len(suited) - len(rejected) <= enough:
                continue
            rejected = self._rejected_seats(reservation, suited, possible[-1], ahead) if ask_filters else {}
            if len(suited) - len(rejected) > enough:
                break
        else:
            rejected = self._rejected_seats(reservation, suited, possible[-1], ahead) if ask_filters else {}
        here = seats_on_current_node(reservation, possible) if ask_filters else []
        return nodes, rejected | self._rejected_seats(reservation, here, possible[-1], ())

    def _rejected_seats(
        self, reservation: Reservation, seats: Sequence[Placement], successor: Pod, jobs_ahead: Sequence[str]
    ) -> dict[SeatKey, str]:
        spare = count_unreliable_seats(reservation, seats)
        return self._fit.rejected_seats(reservation, seats, successor, jobs_ahead, spare=spare)

    async def _read_node(self, name: str) -> Node | None:
        node, now = await self._get(NODE, name), self._clock.now()
        self._nodes.pop(name, None)
        if node is not None:
            self._nodes[name] = node, now
        old = takewhile(lambda item: now - item[1][1] > _NODE_READS_KEPT, self._nodes.items())
        for name in [name for name, _ in old]:
            del self._nodes[name]
        return node

    # --- reads --------------------------------------------------------------------------------------------------------

    async def _read_pods(self, references: Iterable[ObjectReference]) -> tuple[Pod, ...]:
        """The pods of these names that exist, whatever their UIDs."""
        async with _side_by_side() as begin:
            reads = [begin(self._read_pod(reference)) for reference in references]
        return tuple(pod for read in reads if (pod := read.result()) is not None)

    async def _read_pod(self, reference: ObjectReference) -> Pod | None:
        return await self._get(POD, reference.name or "", reference.namespace)

    async def _get(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        if not name or (kind.namespaced and not namespace):
            return None
        try:
            return await self._client.get(kind, name, namespace)
        except (NotFound, Invalid):  # Invalid: a user wrote something that cannot be a name
            return None


class _Begin(Protocol):
    def __call__(self, read: Coroutine[Any, Any, T], /) -> asyncio.Task[T]: ...


@asynccontextmanager
async def _side_by_side() -> AsyncIterator[_Begin]:
    """Reads side by side, all finished at the end of the block. If one fails, the others are cancelled, because the
    facts are of no use without it.

    Not a TaskGroup: if the caller is cancelled while a read fails, a TaskGroup raises the failure and the cancellation
    is lost. Here the cancellation wins.
    """
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
