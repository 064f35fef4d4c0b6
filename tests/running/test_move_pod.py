"""Moving one pod: what is reported while no controller works, after the job is deleted, and while requests fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from restow.client.verbs import Client
from restow.model.kinds import POD, POD_MIGRATION_JOB
from restow.ports import Api, ApiError, Forbidden, OutcomeUnknown, Request, Response
from restow.running.move_pod import JobDeleted, JobNotReadable, MoveRequest, MoveResult, move_pod
from tests.control.scheduler_cluster import FixedErrorApi, unscheduled_cluster
from tests.sim.simulated_cluster import SimulatedCluster, on_virtual_time, pass_time, pod

LOST = OutcomeUnknown.because(503, "ServiceUnavailable", "cut off")
WAITING = "waiting for the API server: cut off"
STARTED = ["moving pod default/web"]
WEB = MoveRequest([("default", "web")])


class Reports:
    """Records the name of the job and every reported sentence."""

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self.sentences: list[str] = []

    def __call__(self, job: str, sentence: str) -> None:
        self.jobs.add(job)
        self.sentences.append(sentence)


def start_move(api: Api, reports: Reports) -> asyncio.Task[MoveResult]:
    return asyncio.create_task(move_pod(Client(api), random.Random(1), WEB, reports))


async def finish_job(it: SimulatedCluster, reports: Reports) -> None:
    """Mark the one job that exists as succeeded."""
    [job] = (await it.client.list(POD_MIGRATION_JOB)).items
    assert reports.jobs == {job.metadata.name}
    status = {"phase": "Succeed", "message": "moved"}
    await it.client.patch(POD_MIGRATION_JOB, job.metadata.name, {"status": status}, subresource="status")


@on_virtual_time
async def test_job_without_a_controller_is_reported_and_deleting_it_ends_the_move() -> None:
    reports = Reports()
    async with unscheduled_cluster(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        task = start_move(it.api, reports)
        await pass_time(9)
        assert reports.sentences == STARTED
        await pass_time(5)
        hint = "is the migrations component running? See restow run and restow install"
        assert reports.sentences[1:] == [f"no controller has picked up the job; {hint}"]
        [job] = (await it.client.list(POD_MIGRATION_JOB)).items
        await it.client.delete(POD_MIGRATION_JOB, job.metadata.name)
        with pytest.raises(JobDeleted, match="was deleted; the pod stays unless it was already evicted"):
            await task


def creates(request: Request) -> bool:
    return (request.verb, request.resource.plural) == ("create", "podmigrationjobs")


@on_virtual_time
async def test_failing_create_is_retried_under_the_same_name() -> None:
    reports = Reports()
    async with unscheduled_cluster(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        api = FixedErrorApi(it.api, creates, LOST)
        task = start_move(api, reports)
        await pass_time(30)
        assert reports.sentences == [*STARTED, WAITING]
        api.error = None
        await pass_time(5)
        assert reports.sentences == [*STARTED, WAITING, *STARTED]
        await finish_job(it, reports)
        assert (await task).succeeded


class LosesFirstAnswer:
    """An Api that creates the first job and then fails as if the answer were lost."""

    def __init__(self, api: Api) -> None:
        self.watch = api.watch
        self._api = api
        self._loses_answer = True

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if creates(request) and self._loses_answer:
            self._loses_answer = False
            raise LOST
        return response


@on_virtual_time
async def test_create_whose_answer_is_lost_makes_one_job() -> None:
    reports = Reports()
    async with unscheduled_cluster(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        task = start_move(LosesFirstAnswer(it.api), reports)
        await pass_time(5)
        await finish_job(it, reports)
        assert (await task).message == "moved" and reports.sentences == STARTED


class HidesJobs:
    """An Api whose reads of jobs fail with `error`, while it is set."""

    def __init__(self, api: Api) -> None:
        self.error: ApiError | None = None
        self._api = api

    async def call(self, request: Request) -> Response:
        if self.error is not None and request.resource.plural == "podmigrationjobs" and request.verb in ("get", "list"):
            raise self.error
        return await self._api.call(request)

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if self.error is not None:
                raise self.error
            yield event


async def move_with_hidden_job(
    it: SimulatedCluster, reports: Reports, error: ApiError
) -> tuple[HidesJobs, asyncio.Task[MoveResult]]:
    """A move whose job becomes unreadable and then Running."""
    await it.create(POD, pod("web", nodeName="n1"))
    api = HidesJobs(it.api)
    task = start_move(api, reports)
    await pass_time(5)
    api.error = error
    [name] = reports.jobs
    status = {"phase": "Running", "message": "a seat is looked for"}
    await it.client.patch(POD_MIGRATION_JOB, name, {"status": status}, subresource="status")
    await pass_time(30)
    return api, task


@on_virtual_time
async def test_unreadable_job_is_read_again_until_it_can_be() -> None:
    reports = Reports()
    async with unscheduled_cluster(nodes=1) as it:
        api, task = await move_with_hidden_job(it, reports, LOST)
        assert reports.sentences == [*STARTED, WAITING]
        api.error = None
        await pass_time(60)
        assert reports.sentences[2:] == ["a seat is looked for"]
        await finish_job(it, reports)
        assert (await task).succeeded


@on_virtual_time
async def test_forbidden_read_ends_with_how_to_follow_the_job() -> None:
    reports = Reports()
    async with unscheduled_cluster(nodes=1) as it:
        _, task = await move_with_hidden_job(it, reports, Forbidden.because(403, "Forbidden", "not your job"))
        [job] = reports.jobs
        with pytest.raises(JobNotReadable, match=f"not your job; the move continues; kubectl get pmj {job}"):
            await task


@on_virtual_time
async def test_job_is_watched_and_not_polled() -> None:
    reports, requests = Reports(), list[Request]()

    def record(request: Request) -> bool:
        requests.append(request)
        return False

    async with unscheduled_cluster(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        task = start_move(FixedErrorApi(it.api, record, LOST), reports)
        await pass_time(65)
        assert len(requests) < 12
        await finish_job(it, reports)
        await pass_time(0.5)
        assert task.done() and (await task).succeeded


def deletes(request: Request) -> bool:
    return request.verb == "delete"


ADMITTED = {"type": "Admitted", "status": "True"}
NOT_ADMITTED = {"type": "Admitted", "status": "False", "reason": "Budget"}


@pytest.mark.parametrize(
    ("phase", "conditions", "deletable", "is_kept"),
    [
        pytest.param("Failed", [], True, False, id="refused: deleted"),
        pytest.param("Failed", [NOT_ADMITTED], True, False, id="never admitted: deleted"),
        pytest.param("Failed", [ADMITTED], True, True, id="failed after admission: kept"),
        pytest.param("Aborted", [], True, True, id="aborted: kept"),
        pytest.param("Failed", [], False, True, id="refused, deletion forbidden: kept"),
    ],
)
@on_virtual_time
async def test_job_that_was_never_admitted_is_deleted(
    phase: str, conditions: list[dict[str, str]], deletable: bool, is_kept: bool
) -> None:
    reports = Reports()
    async with unscheduled_cluster(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        forbidden = Forbidden.because(403, "Forbidden", "not yours")
        task = start_move(it.api if deletable else FixedErrorApi(it.api, deletes, forbidden), reports)
        await pass_time(5)
        [name] = reports.jobs
        status = {"phase": phase, "message": "it may not leave", "conditions": conditions}
        await it.client.patch(POD_MIGRATION_JOB, name, {"status": status}, subresource="status")
        result = await task
        assert (result.phase, result.message, result.job) == (phase, "it may not leave", name if is_kept else None)
        assert [job.metadata.name for job in (await it.client.list(POD_MIGRATION_JOB)).items] == [name] * is_kept
