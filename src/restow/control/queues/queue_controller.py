"""The queue controller: the story of a pass.

    every few seconds, and whenever a queue changes
        news is held ──> the locks as they should be (`queues.locking`) ──> the status of every queue
                     └─> the pods of others on locked nodes, where a guarantee is Guaranteed (`clearing`)
        then   1  status, those who give nodes up first        2  jobs that lost their purpose are aborted
               3  jobs for pods that are to leave              4  what the API server is to refuse by (`door`)

Goes in: an API server, a clock, a Random and `Arguments`. What comes out happens in the API server. Nothing that
matters lives only here: what is locked is read off the queues' status, who is on the move off the jobs.

A node is shown as locked for one queue at a time: nobody is given a node before the status of whoever had it says that
it is free. Pods are moved only off nodes whose lock is shown already, so that the scheduler keeps their successors
away.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import Random
from typing import Any

import msgspec

from restow.client.create_once import create_once
from restow.client.event_recorder import EventRecorder, about
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.executor import Executor, run_inline
from restow.control.queues.admission_parameters_writer import AdmissionParametersWriter
from restow.control.queues.event_handlers import QueueEventHandlers
from restow.control.queues.foreign_pods import (
    ForeignPods,
    JobsByPod,
    find_foreign_pods,
    migration_job_document,
    obsolete_jobs,
    queue_label_of,
)
from restow.control.queues.metrics import QueueMetrics
from restow.control.queues.pruned_status_fields import PrunedStatusFields
from restow.control.queues.settings import QueueControllerSettings
from restow.eviction.protections import eviction_refusal
from restow.migration.arguments import MigrationArguments as MigrationArguments
from restow.migration.conditions import is_job_ended
from restow.migration.limits import too_few_replicas
from restow.model.guarantees import REJECTED_CONDITION, is_rejected
from restow.model.kinds import POD_MIGRATION_JOB, QUEUE
from restow.model.objects import (
    Condition,
    Document,
    GuaranteePolicy,
    JobPhase,
    JobReason,
    Pod,
    PodMigrationJob,
    Queue,
    QueueStatus,
)
from restow.model.pods import condition
from restow.model.wire import WireError, convert
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.ports import AlreadyExists, Api, ApiError, Clock, NotFound, OutcomeUnknown
from restow.queues.admission_parameters import AcceptedGuarantee, admission_parameters
from restow.queues.arguments import QueueArguments
from restow.queues.job_counts import JobCounts, count_jobs
from restow.queues.node_capacity import read_node_capacity
from restow.queues.node_locks import QueueLock, decide_locks, locks_in_status
from restow.queues.queue_status import SATISFIED_CONDITION, QueueObservation, next_queue_status
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.queue_shares import cluster_totals, why_queue_closed

log = logging.getLogger(__name__)

_STATUS = tuple(field.encode_name for field in msgspec.structs.fields(QueueStatus))


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass comes to."""

    locks: dict[str, QueueLock]
    """In the order in which they may be written."""
    statuses: dict[str, tuple[Queue, QueueStatus]]
    """The queues as they were looked at, and what their status should be."""
    clearings: dict[str, ForeignPods]
    in_vain: tuple[PodMigrationJob, ...]
    """Jobs that have lost their purpose."""
    parameters: dict[str, str]
    """What the API server is to refuse by."""


class QueueController:
    """`run()` it until it is cancelled; one at a time per cluster, which leader election sees to."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        *,
        schedulers: frozenset[str],
        arguments: QueueArguments | None = None,
        migration: MigrationArguments | None = None,
        settings: QueueControllerSettings | None = None,
        metrics: QueueMetrics | None = None,
        aside: Executor = run_inline,
        informers: SharedInformers | None = None,
    ) -> None:
        """`schedulers` are those whose pods are ours, `migration` is what pods are moved by."""
        self._schedulers = schedulers
        self._arguments = arguments or QueueArguments()
        self._migration = migration or MigrationArguments()
        self._settings = settings or QueueControllerSettings()
        self._metrics = metrics or QueueMetrics()
        self._aside = aside
        self._clock = clock
        self._client = Client(api, manager="restow-queues")
        self._feed = QueueEventHandlers(informers or SharedInformers(self._client, rng), clock)
        self._recorder = EventRecorder(self._client, clock, Random(rng.getrandbits(64)))
        self._door = AdmissionParametersWriter(
            self._client, clock, self._settings.namespace, self._settings.resync_period
        )
        self._unkept = PrunedStatusFields()
        self._told: dict[str, str | None] = {}
        """How guarantees stood when last told, by queue: where conditions are not kept, nothing else says so."""
        self._in_doubt: set[str] = set()
        """Queues whose status may be another than it seems: nobody knows whether it was written."""
        self._seen: tuple[int, float] | None = None
        """How much had happened when everything was last as it should be, and until when that is believed."""
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Keep the locks until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed.run(), name="queues feed")
            tasks.create_task(self._recorder.run(), name="queues events")
            await self._feed.synced()
            self._ready.set()
            while True:
                await self._look()
                await self._feed.wait_for_urgent_change(self._arguments.relock_period)

    async def ready(self) -> None:
        """Wait until the controller knows the cluster and has begun."""
        await self._ready.wait()

    def configure(self, schedulers: frozenset[str], arguments: QueueArguments, migration: MigrationArguments) -> None:
        """Go by other arguments from now on."""
        self._schedulers, self._arguments, self._migration = schedulers, arguments, migration
        self._seen = None
        self._feed.request_pass()

    # --- a pass -------------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """A pass, unless nothing has happened since the last one left nothing to do."""
        changes, now = self._feed.changes, self._clock.now()
        if self._seen is not None and self._seen[0] == changes and now < self._seen[1]:
            return
        if not await self._is_certain():
            return
        began = asyncio.get_running_loop().time()
        decision = await self._decide()
        self._metrics.pass_decided(decision.locks, decision.clearings, asyncio.get_running_loop().time() - began)
        done = await self._write(decision)
        self._seen = (changes, now + self._settings.resync_period) if done else None

    async def _is_certain(self) -> bool:
        """Find out what became of writes whose answer was lost: until then nobody knows which nodes are shown."""
        for name in sorted(self._in_doubt):
            try:
                self._feed.queues.record_write(await self._client.get(QUEUE, name))
            except NotFound:
                pass
            except (ApiError, WireError) as error:
                log.info("queue in doubt", extra={"queue": name, "err": str(error)})
                return False
            self._in_doubt.discard(name)
        return True

    async def _decide(self) -> Decision:
        with self._feed.paused():
            queues, jobs = list(self._feed.queues), list(self._feed.jobs)
            pods, rules = self._feed.pods(self._schedulers) if queues else [], self._feed.eviction_rules(self._migration)
            return await self._aside(partial(self._decision, queues, jobs, pods, rules))

    def _decision(
        self, queues: list[Queue], jobs: list[PodMigrationJob], pods: list[Pod], rules: ConfiguredEvictionRules
    ) -> Decision:
        snapshot, roster, shown = self._feed.snapshot, self._feed.pod_groups, locks_in_status(queues)
        locks: dict[str, QueueLock] = {}
        if shown or any(queue.spec.guarantee is not None for queue in queues):
            locks = decide_locks(read_node_capacity(snapshot, roster), queues, shown, self._arguments.lock_options)
        cleared = {
            name: [node for node in lock.nodes if node in shown.get(name, ())]
            for name, lock in locks.items()
            if lock.policy is GuaranteePolicy.GUARANTEED
        }
        journal = JobsByPod(jobs, rules.now, self._settings.retry_failed_after)
        clearings = {}
        if cleared:
            why_not = partial(_why_not, self._migration, rules, roster)
            clearings = {
                one: find_foreign_pods(one, nodes, snapshot, roster, journal, why_not) for one, nodes in cleared.items()
            }
        counts, usage = count_jobs(pods, roster), roster.usage()
        statuses = {}
        for queue in queues:
            name = queue.metadata.name
            facts = QueueObservation(
                lock=locks.get(name),
                job_counts=counts.get(name, JobCounts()),
                allocated=usage.get(name, {}),
                waiting_message=str(clearings.get(name, "")),
                now=rules.now,
            )
            statuses[name] = queue, next_queue_status(queue, facts)
        return Decision(
            locks=locks,
            statuses=statuses,
            clearings=clearings,
            in_vain=tuple(obsolete_jobs(jobs, cleared)),
            parameters=admission_parameters(
                self._arguments.ceilings, cluster_totals(snapshot), _promises(queues, locks)
            ),
        )

    async def _write(self, decision: Decision) -> bool:
        """Carry a decision out; whether all of it could be."""
        done = [await self._record(*decision.statuses[name]) for name in _writing_order(decision)]
        done += [await self._abort(job) for job in decision.in_vain]
        for clearing in decision.clearings.values():
            done += [await self._move(clearing.queue, document) for document in self._documents(clearing)]
        done.append(await self._door.write(decision.parameters))
        self._unkept.forget_all_but(decision.statuses)
        self._told = {name: told for name, told in self._told.items() if name in decision.statuses}
        return all(done)

    # --- status -------------------------------------------------------------------------------------------------------

    async def _record(self, queue: Queue, status: QueueStatus) -> bool:
        """Write a status, which holds only for the very version that was looked at."""
        name = queue.metadata.name
        if self._unkept.is_up_to_date(name, status, queue.status, self._clock.now()):
            return True
        others = self._shown_to_others(name)
        mine = status.reservation.nodes if status.reservation is not None else None
        if not others.isdisjoint(mine or ()):  # whoever had it could not be told yet
            return False
        try:
            written = await self._client.patch(
                QUEUE,
                name,
                {"status": _changes(queue.status, status)},
                subresource="status",
                resource_version=queue.metadata.resource_version,
            )
        except NotFound:
            return True
        except (ApiError, WireError) as error:
            log.info("queue not recorded", extra={"queue": name, "err": str(error)})
            if isinstance(error, OutcomeUnknown | WireError):
                self._in_doubt.add(name)
            return False
        self._feed.queues.record_write(written)
        self._tell(queue, written, status)
        return True

    def _shown_to_others(self, name: str) -> set[str]:
        shown = locks_in_status(self._feed.queues)
        return {node for other, nodes in shown.items() if other != name for node in nodes}

    # --- jobs ---------------------------------------------------------------------------------------------------------

    def _documents(self, clearing: ForeignPods) -> list[Document]:
        """The jobs that may be created now."""
        live = sum(queue_label_of(job) is not None and not is_job_ended(job) for job in self._feed.jobs)
        some = clearing.to_move[: max(self._settings.max_jobs - live, 0)]
        return [migration_job_document(clearing.queue, one, self._feed.pod_groups.queue_of(one.pod)) for one in some]

    async def _move(self, queue: str, document: Document) -> bool:
        name: str = document["metadata"]["name"]
        try:
            made, is_new = await self._find_or_create(name, document)
        except OutcomeUnknown:  # it may be there: no pod must get another one meanwhile
            self._feed.jobs.record_write(convert(PodMigrationJob, document))
            return False
        except (ApiError, WireError) as error:
            log.info("job not created", extra={"queue": queue, "job": name, "err": str(error)})
            return False
        self._feed.jobs.record_write(made)
        if is_new:
            self._metrics.job_changed("created")
            log.info("job created", extra={"queue": queue, "job": name, "pod": document["spec"]["podRef"]["name"]})
        return not is_job_ended(made)  # one of before that is over moves nobody: the next attempt is another one

    async def _find_or_create(self, name: str, document: Document) -> tuple[PodMigrationJob, bool]:
        """The job of this name, and whether it is new: whoever led before may have made it, unseen by the watch."""
        try:
            return await create_once(self._client, POD_MIGRATION_JOB, document, adopt=False), True
        except AlreadyExists:
            return await self._client.get(POD_MIGRATION_JOB, name), False

    async def _abort(self, job: PodMigrationJob) -> bool:
        """End a job before it evicts: should it have begun to meanwhile, its version is another, and it goes on."""
        meta = job.metadata
        told = f"the node of its pod is no longer locked for queue {queue_label_of(job)}"
        changes = {"phase": JobPhase.ABORTED.value, "reason": JobReason.LOCK_RELEASED.value, "message": told}
        try:
            written = await self._client.patch(
                POD_MIGRATION_JOB,
                meta.name,
                {"status": changes},
                subresource="status",
                resource_version=meta.resource_version,
            )
        except NotFound:
            return True
        except (ApiError, WireError) as error:
            log.info("job not aborted", extra={"job": meta.name, "err": str(error)})
            return False
        self._feed.jobs.record_write(written)
        self._metrics.job_changed("aborted")
        log.info("job aborted", extra={"job": meta.name, "told": told})
        return True

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, before: Queue, after: Queue, status: QueueStatus) -> None:
        """Events for what changed: which nodes are locked, and how the guarantee stands; and for what of the status
        is not kept."""
        old, new = (locks_in_status([queue]).get(queue.metadata.name, ()) for queue in (before, after))
        come, gone = sorted({*new} - {*old}), sorted({*old} - {*new})
        queue = about(QUEUE, after.metadata)
        if come or gone:
            parts = [f"{what} {', '.join(nodes)}" for what, nodes in (("locked", come), ("released", gone)) if nodes]
            told = f"{'; '.join(parts)}; {len(new)} {'node is' if len(new) == 1 else 'nodes are'} locked"
            self._recorder.record(queue, "NodesLocked" if come else "NodesReleased", told)
            log.info("locks", extra={"queue": after.metadata.name, "locked": come, "released": gone})
        name = after.metadata.name
        was, now = _standing(before), _standing(msgspec.structs.replace(after, status=status))
        before_that = was.reason if was is not None else self._told.get(name)
        self._told[name] = now.reason if now is not None else None
        if now is not None and before_that != now.reason:
            good = now.status == "True" and now.type == SATISFIED_CONDITION
            reason = now.reason if now.type == REJECTED_CONDITION else f"Guarantee{now.reason}"
            self._recorder.record(queue, reason or "", now.message or "", type="Normal" if good else "Warning")
        lost = self._unkept.note_answer(name, status, after.status, self._clock.now())
        if lost:
            told = f"the definition of Queue in this cluster does not keep {', '.join(f'status.{one}' for one in lost)}"
            self._recorder.record(queue, "StatusNotKept", told, type="Warning")
            log.warning("status not kept", extra={"queue": name, "fields": lost})


def _standing(queue: Queue) -> Condition | None:
    """The condition that says how a guarantee stands."""
    return condition(queue.status.conditions, REJECTED_CONDITION if is_rejected(queue) else SATISFIED_CONDITION)


def _why_not(
    migration: MigrationArguments, rules: ConfiguredEvictionRules, roster: PodGroupCache, pod: Pod
) -> str | None:
    """Why a pod may never be moved, as arbitration will see it, or the scheduler that is asked for its seat."""
    if not migration.enabled:
        return "may not be moved: migrations are disabled"
    around = rules.eviction_context(pod)
    reason = eviction_refusal(pod, migration.protections, around)
    if reason is None and around.replicas is not None:
        reason = too_few_replicas(around.replicas, migration.limits)
    if reason is None and (why := why_queue_closed(roster, roster.queue_of(pod))) is not None:
        reason = f"its {why}"
    return reason


def _promises(queues: list[Queue], locks: dict[str, QueueLock]) -> list[AcceptedGuarantee]:
    """The guarantees that are accepted."""
    found = [(queue, locks.get(queue.metadata.name)) for queue in queues]
    return [
        AcceptedGuarantee(queue.metadata.name, queue.spec.priority or 0, lock.accepted)
        for queue, lock in found
        if lock is not None and lock.is_accepted
    ]


def _writing_order(decision: Decision) -> list[str]:
    """Whoever gives up all nodes before those who might be given some, and those in the order of locking."""
    later = [name for name, lock in decision.locks.items() if lock.is_accepted]
    return [*sorted({*decision.statuses} - {*later}), *later]


def _changes(before: QueueStatus, after: QueueStatus) -> Document:
    """A merge patch of everything that is ours to write; maps lose the keys that are no longer there."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    changes: Document = dict.fromkeys(_STATUS) | new
    return {name: _merged(old.get(name), value) for name, value in changes.items()}


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return dict.fromkeys(old) | {name: _merged(old.get(name), value) for name, value in new.items()}
