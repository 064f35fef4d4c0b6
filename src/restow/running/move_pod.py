"""Moves one pod: creates a PodMigrationJob for it and follows the job until it has ended.

Takes the pod and, optionally, a target node; returns the end state of the job. Every step is reported on the way, the
name of the job first. While the API server is busy or does not answer, this waits: the job continues without us.

The migration controller decides whether the pod may be moved, because only it knows its own configuration. A job that
it refuses has changed nothing and is deleted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from random import Random
from typing import Final

import msgspec

from restow.client.create_once import create_once
from restow.client.verbs import Client
from restow.migration.conditions import is_condition_true, is_job_ended
from restow.migration.reservation import TARGET_ANNOTATION
from restow.model.kinds import NODE, POD, POD_MIGRATION_JOB
from restow.model.names import name_stem
from restow.model.objects import Document, JobConditionType, JobPhase, Pod, PodMigrationJob
from restow.model.pods import namespaced_name
from restow.model.reservations.reservation_annotations import MOVED_FROM_ANNOTATION
from restow.ports import ApiError, Forbidden, Gone, NotFound, OutcomeUnknown, TooManyRequests
from restow.running.one_shot_run import check_installed

ReportStep = Callable[[str, str], None]
"""Called with the name of the job, and a sentence about its state."""

RETRY_SECONDS: Final = 1.0
"""Seconds between two attempts."""
WATCH_SECONDS: Final = 10
"""A watch is ended after this time and the job is read, in case an event was lost."""
PENDING_HINT_SECONDS: Final = 10.0
_NOT_PICKED_UP = (
    "no controller has picked up the job; is the migrations component running? See restow run and restow install"
)
_TEMPORARY = (OutcomeUnknown, TooManyRequests)


class MoveRequest(msgspec.Struct, frozen=True):
    """Which pod to move, and where to."""

    candidates: Sequence[tuple[str, str]]
    """Namespace and name, in order of preference: the first pod that exists is meant."""
    target: str | None = None
    ttl: str | None = None


class MoveResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the move ended."""

    job: str | None
    """None if the job was refused before it began, and therefore deleted."""
    phase: str
    reason: str | None
    namespace: str
    pod: str
    source: str | None = msgspec.field(name="from")
    target: str | None = msgspec.field(name="to")
    successor: str | None
    message: str

    @property
    def succeeded(self) -> bool:
        return self.phase == JobPhase.SUCCEED


class NoSuchPod(Exception):
    """The pod does not exist. `known` are the pods that exist, as far as we may list them."""

    def __init__(self, name: str, known: Sequence[tuple[str, str]]) -> None:
        super().__init__(f"pod {name} not found")
        self.known = known


class NoSuchNode(Exception):
    """The target node does not exist."""


class JobDeleted(Exception):
    """The job was deleted before it had ended."""


class JobNotReadable(Exception):
    """We may not read the job any more; it continues."""


def move_continues_hint(job: str) -> str:
    """The message for users that do not wait for the end."""
    return f"the move continues; kubectl get pmj {job} shows its state, kubectl delete pmj {job} stops it"


async def move_pod(client: Client, rng: Random, request: MoveRequest, report: ReportStep) -> MoveResult:
    """Move a pod; returns when the job has ended, successfully or not. Raises NoSuchPod, NoSuchNode, JobDeleted,
    JobNotReadable, NotInstalled and ApiError."""
    # 1. Find the pod, and check what would make the request pointless.
    pod = await _find_pod(client, request.candidates)
    if request.target is not None:
        await _check_node(client, request.target)
    await check_installed(client)
    # 2. Create the job. Its name is random but fixed from here on, so that retries cannot create a second one.
    namespace, pod_name = namespaced_name(pod)
    name = f"move-{name_stem(pod_name, 'pod')}-{rng.getrandbits(40):010x}"
    summary = f"moving pod {namespace}/{pod_name}" + (f" to node {request.target}" if request.target else "")
    reporter = _Reporter(name, summary, report)
    await _create_job(client, _job_document(name, pod, request), reporter)
    # 3. Follow it to its end, and delete it if it was refused.
    job = await _follow_job(client, name, reporter)
    is_deleted = _is_refused(job) and await _delete_job(client, job)
    status, came_from = job.status, (job.metadata.annotations or {}).get(MOVED_FROM_ANNOTATION)
    return MoveResult(
        job=None if is_deleted else name,
        phase=status.phase or "",
        reason=status.reason or None,
        namespace=namespace,
        pod=pod_name,
        source=came_from or pod.spec.node_name,
        target=status.node_name,
        successor=status.pod_ref.name if status.pod_ref else None,
        message=status.message or "",
    )


async def _check_node(client: Client, name: str) -> None:
    try:
        await client.get(NODE, name)
    except NotFound as problem:
        raise NoSuchNode(f"node {name} not found") from problem


async def _find_pod(client: Client, candidates: Sequence[tuple[str, str]]) -> Pod:
    *preferred, (namespace, name) = candidates
    for other_namespace, other_name in preferred:
        # Forbidden: without rights in that namespace it cannot be the one that the user means.
        with suppress(NotFound, Forbidden):
            return await client.get(POD, other_name, other_namespace)
    try:
        return await client.get(POD, name, namespace)
    except NotFound as problem:
        raise NoSuchPod(f"{namespace}/{name}", await _list_pod_names(client, namespace)) from problem


async def _list_pod_names(client: Client, namespace: str) -> list[tuple[str, str]]:
    """All pods of the cluster; without the right to list them, those of the namespace."""
    for scope in (None, namespace):
        with suppress(ApiError):
            return [namespaced_name(pod) for pod in (await client.list(POD, scope)).items]
    return []


def _job_document(name: str, pod: Pod, request: MoveRequest) -> Document:
    meta = pod.metadata
    annotations = {} if request.target is None else {TARGET_ANNOTATION: request.target}
    ttl = {} if request.ttl is None else {"ttl": request.ttl}
    pod_ref = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"podRef": pod_ref, **ttl}}


class _Reporter:
    """Reports the state of a job, each state once while it lasts; first of all what the job does."""

    def __init__(self, job: str, summary: str, report: ReportStep) -> None:
        self.summary = summary
        self._job = job
        self._report = report
        self._last = ""
        self.report(summary)

    def report(self, sentence: str) -> None:
        if sentence != self._last:
            self._report(self._job, sentence)
        self._last = sentence

    def report_error(self, error: BaseException) -> None:
        self.report(f"waiting for the API server: {error}")


async def _create_job(client: Client, document: Document, reporter: _Reporter) -> None:
    """Create the job exactly once, with retries. Raises ApiError."""
    while True:
        try:
            await create_once(client, POD_MIGRATION_JOB, document)
            return
        except _TEMPORARY as error:
            reporter.report_error(error)
            await asyncio.sleep(RETRY_SECONDS)


async def _follow_job(client: Client, name: str, reporter: _Reporter) -> PodMigrationJob:
    """Report the state of the job until it has ended, and return it. Raises JobDeleted and JobNotReadable."""
    now = asyncio.get_running_loop().time
    began, state = now(), reporter.summary
    while True:
        try:
            job = await client.get(POD_MIGRATION_JOB, name)
            if is_job_ended(job):
                return job
            is_ignored = now() - began >= PENDING_HINT_SECONDS and not job.status.phase
            state = job.status.message or (_NOT_PICKED_UP if is_ignored else state)
            reporter.report(state)
            await _wait_for_change(client, job)
        except NotFound as problem:
            raise JobDeleted(f"job {name} was deleted; the pod stays unless it was already evicted") from problem
        except _TEMPORARY as error:
            reporter.report_error(error)
            await asyncio.sleep(RETRY_SECONDS)
        except ApiError as problem:
            raise JobNotReadable(f"{problem}; {move_continues_hint(name)}") from problem


def _is_refused(job: PodMigrationJob) -> bool:
    return job.status.phase == JobPhase.FAILED and not is_condition_true(job.status, JobConditionType.ADMITTED)


async def _delete_job(client: Client, job: PodMigrationJob) -> bool:
    """Delete a job that has changed nothing; False if that is not possible."""
    try:
        await client.delete(POD_MIGRATION_JOB, job.metadata.name, uid=job.metadata.uid)
    except NotFound:
        return True
    except ApiError:  # the garbage collection of ended jobs deletes it later
        return False
    return True


async def _wait_for_change(client: Client, job: PodMigrationJob) -> None:
    """Wait until the job differs from `job`, for WATCH_SECONDS at most. Raises ApiError."""
    meta = job.metadata
    events = client.watch(
        POD_MIGRATION_JOB,
        fields=f"metadata.name={meta.name}",
        resource_version=meta.resource_version,
        timeout_seconds=WATCH_SECONDS,
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(WATCH_SECONDS), aclosing(events):
            with suppress(Gone):
                async for event in events:
                    if event.type != "BOOKMARK":
                        return
            await asyncio.sleep(RETRY_SECONDS)  # where the watch ends at once, do not read the job in a tight loop
