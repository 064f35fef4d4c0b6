"""The queue controller: one pass every few seconds, and at once when a queue changes.

    changes wait ──> decide (`queue_pass`): locks, status of every queue, foreign pods on locked nodes
                     write:  1. the status of queues, those that give up nodes first   (`queue_status_writer`)
                             2. abort the jobs that have become obsolete               (`queue_jobs`)
                             3. create jobs for foreign pods                           (`queue_jobs`)
                             4. the parameters by which the API server refuses         (`admission_parameters_writer`)

Goes in: an API server, a clock, a Random and a `QueueControllerConfiguration`. What comes out is in the API server.
Nothing that matters lives only in this process: the locks are read off the status of the queues, the moves off the
jobs.

A node is shown as locked for one queue at a time. Pods are moved off a node only after its lock is shown, so that
the scheduler keeps other pods, and the successors, away.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

from restow.client.event_recorder import EventRecorder
from restow.client.shared_informers import SharedInformers
from restow.client.verbs import Client
from restow.control.executor import Executor, run_inline
from restow.control.queues.admission_parameters_writer import AdmissionParametersWriter
from restow.control.queues.event_handlers import QueueEventHandlers
from restow.control.queues.metrics import QueueMetrics
from restow.control.queues.queue_jobs import QueueJobs
from restow.control.queues.queue_pass import PassDecision, PassInputs, decide_pass
from restow.control.queues.queue_status_writer import QueueStatusWriter
from restow.control.queues.settings import QueueControllerConfiguration
from restow.ports import Api, Clock


class QueueController:
    """`run()` it until it is cancelled. Leader election makes sure that one runs per cluster."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        rng: Random,
        configuration: QueueControllerConfiguration,
        *,
        metrics: QueueMetrics | None = None,
        executor: Executor = run_inline,
        informers: SharedInformers | None = None,
    ) -> None:
        self._configuration = configuration
        self._settings = settings = configuration.settings
        self._metrics = metrics or QueueMetrics()
        self._executor = executor
        self._clock = clock
        client = Client(api, manager="restow-queues")
        self._handlers = handlers = QueueEventHandlers(informers or SharedInformers(client, rng), clock)
        self._recorder = EventRecorder(client, clock, Random(rng.getrandbits(64)))
        self._statuses = QueueStatusWriter(client, clock, self._recorder, handlers.queues)
        self._jobs = QueueJobs(client, handlers.jobs, handlers.pod_groups, self._metrics, settings.max_jobs)
        self._admission = AdmissionParametersWriter(client, clock, settings.namespace, settings.resync_period)
        self._settled: tuple[int, float] | None = None
        """After a pass that left nothing to do: the change count before it, and until when no other pass is needed."""
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Keep the locks up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._handlers.run(), name="queues event handlers")
            tasks.create_task(self._recorder.run(), name="queues event recorder")
            await self._handlers.synced()
            self._ready.set()
            while True:
                await self._run_pass_if_needed()
                await self._handlers.wait_for_urgent_change(self._configuration.arguments.relock_period)

    async def ready(self) -> None:
        """Wait until the controller knows the cluster."""
        await self._ready.wait()

    def configure(self, configuration: QueueControllerConfiguration) -> None:
        """Work by other names and arguments from now on. The settings stay as they are."""
        self._configuration = configuration
        self._settled = None
        self._handlers.request_pass()

    # --- a pass -------------------------------------------------------------------------------------------------------

    async def _run_pass_if_needed(self) -> None:
        """Run a pass, unless nothing has changed since the last one left nothing to do."""
        change_count, now = self._handlers.change_count, self._clock.now()
        if self._settled is not None and self._settled[0] == change_count and now < self._settled[1]:
            return
        if not await self._statuses.resolve_unanswered():
            return
        began = asyncio.get_running_loop().time()
        decision = await self._decide()
        self._metrics.pass_decided(decision.locks, decision.foreign_pods, asyncio.get_running_loop().time() - began)
        is_done = await self._write(decision)
        self._settled = (change_count, now + self._settings.resync_period) if is_done else None

    async def _decide(self) -> PassDecision:
        handlers, configuration = self._handlers, self._configuration
        with handlers.paused():
            queues = list(handlers.queues)
            inputs = PassInputs(
                snapshot=handlers.snapshot,
                pod_groups=handlers.pod_groups,
                queues=queues,
                migration_jobs=list(handlers.jobs),
                pods=handlers.pods_of_schedulers(configuration.scheduler_names) if queues else [],
                eviction_rules=handlers.eviction_rules(configuration.migration),
            )
            return await self._executor(partial(decide_pass, inputs, configuration))

    async def _write(self, decision: PassDecision) -> bool:
        """Carry out a decision. Returns False if some of it could not be written."""
        done = [await self._statuses.write(*decision.statuses[name]) for name in decision.queues_in_writing_order()]
        done += [await self._jobs.abort_job(job) for job in decision.obsolete_jobs]
        done += [await self._jobs.create_jobs(foreign_pods) for foreign_pods in decision.foreign_pods.values()]
        done.append(await self._admission.write(decision.parameters))
        self._statuses.forget_all_but(decision.statuses)
        return all(done)
