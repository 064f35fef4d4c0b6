"""A pod that is moved by itself: what is told while nobody carries the job out, when it is gone, and in trouble."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from restow.client.verbs import Client
from restow.model.kinds import POD, POD_MIGRATION_JOB
from restow.ports import Api, ApiError, Forbidden, OutcomeUnknown, Request, Response
from restow.running.one_move import Conclusion, Errand, JobGone, OutOfSight, move
from tests.control.stage import Answering, world
from tests.sim.stage import Stage, pass_time, pod, virtual

LOST = OutcomeUnknown.because(503, "ServiceUnavailable", "cut off")
WAITS = "waits for the cluster: cut off"
BEGUN = ["moves pod default/web"]
WEB = Errand([("default", "web")])


class Told:
    """What is said of a job."""

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self.sentences: list[str] = []

    def __call__(self, job: str, sentence: str) -> None:
        self.jobs.add(job)
        self.sentences.append(sentence)


def moving(api: Api, told: Told) -> asyncio.Task[Conclusion]:
    return asyncio.create_task(move(Client(api), random.Random(1), WEB, told))


async def end(it: Stage, told: Told) -> None:
    """Carry the job out that was told of, which is the only one."""
    [job] = (await it.client.list(POD_MIGRATION_JOB)).items
    assert told.jobs == {job.metadata.name}
    status = {"phase": "Succeed", "message": "moved"}
    await it.client.patch(POD_MIGRATION_JOB, job.metadata.name, {"status": status}, subresource="status")


@virtual
async def test_a_job_that_nobody_takes_up_and_then_somebody_deletes() -> None:
    told = Told()
    async with world(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        task = moving(it.api, told)
        await pass_time(9)
        assert told.sentences == BEGUN
        await pass_time(5)
        nobody = "nobody takes it up; does the component migrations run? See restow run and restow install"
        assert told.sentences[1:] == [nobody]
        [job] = (await it.client.list(POD_MIGRATION_JOB)).items
        await it.client.delete(POD_MIGRATION_JOB, job.metadata.name)
        with pytest.raises(JobGone, match="somebody deleted the job"):
            await task


def creates(request: Request) -> bool:
    return (request.verb, request.resource.plural) == ("create", "podmigrationjobs")


@virtual
async def test_whose_job_cannot_be_made_yet_knows_its_name_and_waits() -> None:
    told = Told()
    async with world(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        api = Answering(it.api, creates, LOST)
        task = moving(api, told)
        await pass_time(30)
        assert told.sentences == [*BEGUN, WAITS]
        api.answer = None
        await pass_time(5)
        assert told.sentences == [*BEGUN, WAITS, *BEGUN]
        await end(it, told)
        assert (await task).succeeded


class Mute:
    """An Api that does what it is asked and does not say so, the first time that a job is made."""

    def __init__(self, api: Api) -> None:
        self.watch = api.watch
        self._api = api
        self._is_mute = True

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if creates(request) and self._is_mute:
            self._is_mute = False
            raise LOST
        return response


@virtual
async def test_a_job_that_was_made_though_nobody_said_so_is_not_made_again() -> None:
    told = Told()
    async with world(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        task = moving(Mute(it.api), told)
        await pass_time(5)
        await end(it, told)
        assert (await task).message == "moved" and told.sentences == BEGUN


class Hidden:
    """An Api that shows nobody a job, while it has a reason."""

    def __init__(self, api: Api) -> None:
        self.why: ApiError | None = None
        self._api = api

    async def call(self, request: Request) -> Response:
        if self.why is not None and request.resource.plural == "podmigrationjobs" and request.verb in ("get", "list"):
            raise self.why
        return await self._api.call(request)

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if self.why is not None:
                raise self.why
            yield event


async def hidden(it: Stage, told: Told, why: ApiError) -> tuple[Hidden, asyncio.Task[Conclusion]]:
    """A move that goes on unseen."""
    await it.create(POD, pod("web", nodeName="n1"))
    api = Hidden(it.api)
    task = moving(api, told)
    await pass_time(5)
    api.why = why
    [name] = told.jobs
    status = {"phase": "Running", "message": "a seat is looked for"}
    await it.client.patch(POD_MIGRATION_JOB, name, {"status": status}, subresource="status")
    await pass_time(30)
    return api, task


@virtual
async def test_whoever_cannot_see_the_job_for_a_while_goes_on_looking() -> None:
    told = Told()
    async with world(nodes=1) as it:
        api, task = await hidden(it, told, LOST)
        assert told.sentences == [*BEGUN, WAITS]
        api.why = None
        await pass_time(60)
        assert told.sentences[2:] == ["a seat is looked for"]
        await end(it, told)
        assert (await task).succeeded


@virtual
async def test_whoever_may_not_see_the_job_any_more_hears_how_it_goes_on() -> None:
    told = Told()
    async with world(nodes=1) as it:
        _, task = await hidden(it, told, Forbidden.because(403, "Forbidden", "not your job"))
        [job] = told.jobs
        with pytest.raises(OutOfSight, match=f"not your job; the move goes on: kubectl get pmj {job}"):
            await task


@virtual
async def test_a_job_is_watched_and_not_asked_for_again_and_again() -> None:
    told, asked = Told(), list[Request]()

    def note(request: Request) -> bool:
        asked.append(request)
        return False

    async with world(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        task = moving(Answering(it.api, note, LOST), told)
        await pass_time(65)
        assert len(asked) < 12
        await end(it, told)
        await pass_time(0.5)
        assert task.done() and (await task).succeeded


def deletes(request: Request) -> bool:
    return request.verb == "delete"


ADMITTED = {"type": "Admitted", "status": "True"}
WAITED = {"type": "Admitted", "status": "False", "reason": "Budget"}


@pytest.mark.parametrize(
    ("phase", "conditions", "deletable", "left"),
    [
        pytest.param("Failed", [], True, False, id="refused: nothing is left"),
        pytest.param("Failed", [WAITED], True, False, id="never let in: nothing is left"),
        pytest.param("Failed", [ADMITTED], True, True, id="failed on the way: it says what happened"),
        pytest.param("Aborted", [], True, True, id="aborted by somebody"),
        pytest.param("Failed", [], False, True, id="refused, and may not be deleted"),
    ],
)
@virtual
async def test_a_job_that_never_began_is_not_left_behind(
    phase: str, conditions: list[dict[str, str]], deletable: bool, left: bool
) -> None:
    told = Told()
    async with world(nodes=1) as it:
        await it.create(POD, pod("web", nodeName="n1"))
        no = Forbidden.because(403, "Forbidden", "not yours")
        task = moving(it.api if deletable else Answering(it.api, deletes, no), told)
        await pass_time(5)
        [name] = told.jobs
        status = {"phase": phase, "message": "it may not leave", "conditions": conditions}
        await it.client.patch(POD_MIGRATION_JOB, name, {"status": status}, subresource="status")
        done = await task
        assert (done.phase, done.message, done.job) == (phase, "it may not leave", name if left else None)
        assert [one.metadata.name for one in (await it.client.list(POD_MIGRATION_JOB)).items] == [name] * left
