"""One pod moved, on somebody's cluster: a job is made for it, and followed until it has ended.

Goes in: which pod, and where to. Comes out: how it ended; every step is told on the way, and first of all how the job
is called. A cluster that is busy or does not answer is waited for, since the job goes on, whoever looks.

Whether a pod may be moved is for whoever carries the job out to say: by its own configuration, which nobody else knows
for certain. A job that is refused before it began has changed nothing, and is not left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from random import Random
from typing import Final

import msgspec

from restow.client.creating import create_once
from restow.client.verbs import Client
from restow.migration.conditions import holds, is_ended
from restow.migration.reservation import TARGET_ANNOTATION
from restow.model.cluster import MOVED_FROM_ANNOTATION
from restow.model.kinds import NODE, POD, POD_MIGRATION_JOB
from restow.model.names import stem
from restow.model.objects import Document, JobConditionType, JobPhase, Pod, PodMigrationJob
from restow.model.pods import full_name
from restow.ports import ApiError, Forbidden, Gone, NotFound, OutcomeUnknown, TooManyRequests
from restow.running.acting import check_installed

Tell = Callable[[str, str], None]
"""Hears the name of the job, and what is true of it now."""

PAUSE: Final = 1.0
"""Seconds between two attempts."""
LOOK_SECONDS: Final = 10
"""After which the job is looked at though there was no news of it."""
UNTOUCHED_SECONDS: Final = 10.0
_UNTOUCHED = "nobody takes it up; does the component migrations run? See restow run and restow install"
_PASSES = (OutcomeUnknown, TooManyRequests)


class Errand(msgspec.Struct, frozen=True):
    """What somebody wants moved, and where to."""

    meant: Sequence[tuple[str, str]]
    """Namespace and name; the pod is the first of them that there is."""
    target: str | None = None
    ttl: str | None = None


class Conclusion(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended."""

    job: str | None
    """None if it was refused before it began: then it is there no more."""
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
    """What is to move is not there; these pods are, as far as we may look."""

    def __init__(self, name: str, known: Sequence[tuple[str, str]]) -> None:
        super().__init__(f"there is no pod {name}")
        self.known = known


class NoSuchNode(Exception):
    """Where it is to go is not there."""


class JobGone(Exception):
    """Somebody deleted the job."""


class OutOfSight(Exception):
    """The job cannot be followed any more, and goes on."""


def goes_on(job: str) -> str:
    """What people are told who do not wait for the end."""
    return f"the move goes on: kubectl get pmj {job}; kubectl delete pmj {job} ends it"


async def move(client: Client, rng: Random, errand: Errand, tell: Tell) -> Conclusion:
    """Move a pod; returns when the job has ended, however. Raises NoSuchPod, NoSuchNode, JobGone,
    OutOfSight, NotInstalled and ApiError."""
    pod = await _found(client, errand)
    await check_installed(client)
    namespace, pod_name = full_name(pod)
    name = f"move-{stem(pod_name, 'pod')}-{rng.getrandbits(40):010x}"
    what = f"moves pod {namespace}/{pod_name}" + (f" to node {errand.target}" if errand.target else "")
    telling = _Telling(name, what, tell)
    await _make(client, _document(name, pod, errand), telling)
    job = await _followed(client, name, telling)
    left = not (_is_refused(job) and await _cleared_away(client, job))
    status, came_from = job.status, (job.metadata.annotations or {}).get(MOVED_FROM_ANNOTATION)
    return Conclusion(
        job=name if left else None,
        phase=status.phase or "",
        reason=status.reason or None,
        namespace=namespace,
        pod=pod_name,
        source=came_from or pod.spec.node_name,
        target=status.node_name,
        successor=status.pod_ref.name if status.pod_ref else None,
        message=status.message or "",
    )


async def _found(client: Client, errand: Errand) -> Pod:
    pod = await _pod(client, errand.meant)
    if errand.target is not None:
        try:
            await client.get(NODE, errand.target)
        except NotFound as problem:
            raise NoSuchNode(f"there is no node {errand.target}") from problem
    return pod


async def _pod(client: Client, meant: Sequence[tuple[str, str]]) -> Pod:
    *others, (namespace, name) = meant
    for where, called in others:
        with suppress(NotFound, Forbidden):  # whoever may only look into some namespaces is not told that it is not one
            return await client.get(POD, called, where)
    try:
        return await client.get(POD, name, namespace)
    except NotFound as problem:
        raise NoSuchPod(f"{namespace}/{name}", await _known(client, namespace)) from problem


async def _known(client: Client, namespace: str) -> list[tuple[str, str]]:
    """The pods that there are; where we may not look at all, those of a namespace."""
    for where in (None, namespace):
        with suppress(ApiError):
            return [full_name(pod) for pod in (await client.list(POD, where)).items]
    return []


def _document(name: str, pod: Pod, errand: Errand) -> Document:
    meta = pod.metadata
    notes = {} if errand.target is None else {TARGET_ANNOTATION: errand.target}
    terms = {} if errand.ttl is None else {"ttl": errand.ttl}
    meant = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"podRef": meant, **terms}}


class _Telling:
    """What is said of a job, once for as long as it is true; first of all what it does."""

    def __init__(self, job: str, what: str, tell: Tell) -> None:
        self.what = what
        self._job = job
        self._tell = tell
        self._said = ""
        self.say(what)

    def say(self, sentence: str) -> None:
        if sentence != self._said:
            self._tell(self._job, sentence)
        self._said = sentence

    def say_trouble(self, trouble: BaseException) -> None:
        self.say(f"waits for the cluster: {trouble}")


async def _make(client: Client, document: Document, telling: _Telling) -> None:
    """Have the job, once, however often that is tried. Raises ApiError."""
    while True:
        try:
            await create_once(client, POD_MIGRATION_JOB, document)
            return
        except _PASSES as trouble:
            telling.say_trouble(trouble)
            await asyncio.sleep(PAUSE)


async def _followed(client: Client, name: str, telling: _Telling) -> PodMigrationJob:
    """The job once it has ended. Raises JobGone and OutOfSight."""
    now = asyncio.get_running_loop().time
    began, last = now(), telling.what
    while True:
        try:
            job = await client.get(POD_MIGRATION_JOB, name)
            if is_ended(job):
                return job
            late = now() - began >= UNTOUCHED_SECONDS and not job.status.phase
            last = job.status.message or (_UNTOUCHED if late else last)
            telling.say(last)
            await _changed(client, job)
        except NotFound as problem:
            raise JobGone(f"{name}: somebody deleted the job; unless the pod has left, it stays") from problem
        except _PASSES as trouble:
            telling.say_trouble(trouble)
            await asyncio.sleep(PAUSE)
        except ApiError as problem:
            raise OutOfSight(f"{problem}; {goes_on(name)}") from problem


def _is_refused(job: PodMigrationJob) -> bool:
    return job.status.phase == JobPhase.FAILED and not holds(job.status, JobConditionType.ADMITTED)


async def _cleared_away(client: Client, job: PodMigrationJob) -> bool:
    """Delete a job that changed nothing; whether it is gone."""
    try:
        await client.delete(POD_MIGRATION_JOB, job.metadata.name, uid=job.metadata.uid)
    except NotFound:
        return True
    except ApiError:  # it goes by itself, later
        return False
    return True


async def _changed(client: Client, job: PodMigrationJob) -> None:
    """Wait until a job is not what it was, or for a while. Raises ApiError."""
    meta = job.metadata
    events = client.watch(
        POD_MIGRATION_JOB,
        fields=f"metadata.name={meta.name}",
        resource_version=meta.resource_version,
        timeout_seconds=LOOK_SECONDS,
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_SECONDS), aclosing(events):
            with suppress(Gone):
                async for event in events:
                    if event.type != "BOOKMARK":
                        return
            await asyncio.sleep(PAUSE)  # a server that lets nobody watch is not asked without pause
