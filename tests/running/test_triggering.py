"""The descheduler is told over HTTP to run: who may, and what they are answered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from restow.adapters.health import Posted, Told, serve_health
from restow.client.election import LeaderElection
from restow.client.verbs import Client
from restow.control.aside import at_once
from restow.model import kinds
from restow.model.times import format_micro_time
from restow.ports import Api, OutcomeUnknown, Request, Resource, Response
from restow.running.configuration import Configuration
from restow.running.parts import DeschedulerPart
from restow.running.posts import Post, Station
from restow.running.triggering import Trigger
from tests.control.descheduler.stage import scattered
from tests.sim.stage import pass_time, virtual

SCHEDULER = {"schedulerNames": ["restow", "default-scheduler"]}


class Reviewing:
    """An Api that knows one token, whose bearer may, or may not."""

    def __init__(self, api: Api, *, allowed: bool = True) -> None:
        self.watch = api.watch
        self.asked: list[Any] = []
        self.down = ""
        """What it does not answer."""
        self._api = api
        self._allowed = allowed

    async def call(self, request: Request) -> Response:
        answer: dict[str, Any] | None = None
        if request.resource.plural == self.down:
            raise OutcomeUnknown.because(503, "ServiceUnavailable", "it is down")
        if request.resource.plural == "tokenreviews":
            known = msgspec.json.decode(request.body)["spec"]["token"] == "secret"
            answer = {"authenticated": known, "user": {"username": "ann", "groups": ["ops"]}}
        elif request.resource.plural == "subjectaccessreviews":
            self.asked.append(msgspec.json.decode(request.body)["spec"])
            answer = {"allowed": self._allowed, "reason": "no role says so"}
        if answer is None:
            return await self._api.call(request)
        return Response(body=msgspec.json.encode({"status": answer}), code=201)


class Dying:
    """An Api that takes so many jobs; whoever asks for one more hears nothing, until the process is killed."""

    def __init__(self, api: Api, jobs: int) -> None:
        self.watch = api.watch
        self._api = api
        self._left = jobs

    async def call(self, request: Request) -> Response:
        if request.resource.plural == "podmigrationjobs" and request.verb == "create":
            if not self._left:
                await asyncio.Event().wait()
            self._left -= 1
        return await self._api.call(request)


async def issued(api: Api, account: str, seconds: int) -> str:
    """A token for a service account, as kubectl create token asks for one."""
    body = msgspec.json.encode({"spec": {"expirationSeconds": seconds}})
    about = Resource("", "v1", "serviceaccounts")
    asked = Request(verb="create", resource=about, namespace="default", name=account, subresource="token", body=body)
    token: str = msgspec.json.decode((await api.call(asked)).body)["status"]["token"]
    return token


@asynccontextmanager
async def trigger(
    it: Any, *, allowed: bool = True, api: Api | None = None, elected: bool = False
) -> AsyncIterator[tuple[Trigger, Reviewing, Post]]:
    """A process whose descheduler works."""

    def elect(component: str) -> LeaderElection:
        return LeaderElection(
            Client(it.api),
            namespace="restow-system",
            name=f"restow-{component}",
            identity="this",
            clock=it.clock,
            rng=random.Random(2),
        )

    part = DeschedulerPart(CollectorRegistry(), "restow-system", at_once)
    around = Station(api or it.api, it.clock, random.Random(1), elect if elected else None)
    post = Post(part, around, Configuration(scheduler=SCHEDULER))
    reviewing = Reviewing(it.api, allowed=allowed)
    holding = asyncio.create_task(post.hold())
    try:
        await pass_time(2)
        yield Trigger(Client(reviewing), post), reviewing, post
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


@virtual
async def test_whoever_may_create_jobs_may_run_a_profile() -> None:
    async with scattered() as it, trigger(it) as (made, reviewing, _):
        told = await made.answer(Posted("secret", {"dryRun": "true"}))
        assert (told.status, len(told.document["plan"]["moves"]), told.document["jobs"]) == (200, 4, [])
        assert [one["user"] for one in reviewing.asked] == ["ann"]
        wanted = {"group": "scheduling.koordinator.sh", "resource": "podmigrationjobs", "verb": "create"}
        assert reviewing.asked[0]["resourceAttributes"] == wanted
        told = await made.answer(Posted("secret", {"profile": "default"}))
        assert (told.status, len(told.document["jobs"])) == (200, 4)
        told = await made.answer(Posted("secret", {}))
        assert (told.status, "is under way" in told.document["message"]) == (409, True)


@pytest.mark.parametrize(
    ("token", "query", "allowed", "status", "message"),
    [
        pytest.param("", {}, True, 401, "a bearer token is needed", id="nobody"),
        pytest.param("guess", {}, True, 401, "a bearer token is needed", id="a stranger"),
        pytest.param("secret", {}, False, 403, "ann may not create podmigrationjobs", id="somebody who may not"),
        pytest.param("secret", {"profile": "x"}, True, 404, "no profile is called 'x'", id="an unknown profile"),
        pytest.param("secret", {"dryrun": "1"}, True, 400, "known are profile=NAME", id="an unknown parameter"),
        pytest.param("secret", {"dryRun": "maybe"}, True, 400, "known are profile=NAME", id="neither yes nor no"),
    ],
)
@virtual
async def test_nobody_else_is_let_in(
    token: str, query: dict[str, str], allowed: bool, status: int, message: str
) -> None:
    async with scattered() as it, trigger(it, allowed=allowed) as (made, *_):
        told = await made.answer(Posted(token, query))
        assert told.status == status and message in told.document["message"], told
        assert await it.jobs() == []


@pytest.mark.parametrize(
    ("seconds", "status"), [(590, 200), (610, 401)], ids=["a token of its last seconds", "a token that has expired"]
)
@virtual
async def test_a_token_is_good_until_it_expires(seconds: float, status: int) -> None:
    """By the embedded cluster's own TokenReviews."""
    async with scattered() as it, trigger(it) as (_, _, post):
        await it.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "ann", "namespace": "default"}})
        token = await issued(it.api, "ann", 600)
        await pass_time(seconds)
        told = await Trigger(Client(it.api), post).answer(Posted(token, {"dryRun": "true"}))
        assert told.status == status, told


@pytest.mark.parametrize("jobs", [0, 2], ids=lambda count: f"after {count} jobs")
@virtual
async def test_whoever_is_killed_in_the_middle_of_a_run_keeps_nobody_from_the_next(jobs: int) -> None:
    async with scattered() as it:
        async with trigger(it, api=Dying(it.api, jobs)) as (made, *_):
            asked = asyncio.create_task(made.answer(Posted("secret", {})))
            await pass_time(1)
            told = await made.answer(Posted("secret", {}))
            assert (told.status, told.document["message"]) == (409, "a cycle is under way")
            asked.cancel()
        async with trigger(it) as (made, *_):
            await pass_time(60)
            assert {one.status.phase for one in await it.jobs()} == ({"Succeed"} if jobs else set())
            told = await made.answer(Posted("secret", {}))
            assert (told.status, len(told.document["jobs"])) == (200, 4 - jobs)


@virtual
async def test_a_run_that_was_asked_for_ends_with_its_descheduler_and_the_next_waits_for_its_jobs() -> None:
    """Another configuration comes in the middle of a run: nobody goes on with the old one beside the new one."""
    async with scattered(migrating=False) as it, trigger(it, api=Dying(it.api, 2)) as (made, _, post):
        asked = asyncio.create_task(made.answer(Posted("secret", {})))
        await pass_time(1)
        post.configure(Configuration(scheduler=SCHEDULER, descheduler={"maxNoOfPodsToEvictTotal": 10}))
        await pass_time(2)
        told = await asked
        assert told.status == 409
        assert told.document["message"] == "the descheduler stopped meanwhile; what it has created is carried out"
        told = await made.answer(Posted("secret", {}))
        assert told.status == 409 and "is under way: 2 of its 2 jobs have not ended" in told.document["message"]


@virtual
async def test_who_loses_the_lease_in_the_middle_of_a_run_creates_nothing_more() -> None:
    async with scattered(migrating=False) as it, trigger(it, api=Dying(it.api, 2), elected=True) as (made, *_):
        asked = asyncio.create_task(made.answer(Posted("secret", {})))
        await pass_time(1)
        stolen = {"spec": {"holderIdentity": "another", "renewTime": format_micro_time(it.clock.now())}}
        await it.client.patch(kinds.LEASE, "restow-descheduler", stolen, "restow-system")
        told = await asked
        assert (told.status, "the descheduler stopped meanwhile" in told.document["message"]) == (409, True)
        told = await made.answer(Posted("secret", {}))
        assert (told.status, told.document["message"]) == (
            503,
            "the descheduler of this process is standing by for another",
        )
        assert len(await it.jobs()) == 2


@pytest.mark.parametrize("down", ["tokenreviews", "subjectaccessreviews"])
@virtual
async def test_nobody_is_let_in_while_nobody_says_who_they_are(down: str) -> None:
    async with scattered() as it, trigger(it) as (made, reviewing, _):
        reviewing.down = down
        told = await made.answer(Posted("secret", {}))
        assert (told.status, told.document["message"]) == (502, "the API server says: it is down")
        assert await it.jobs() == []


@virtual
async def test_who_stands_by_says_so() -> None:
    async with scattered() as it:
        part = DeschedulerPart(CollectorRegistry(), "restow-system")
        post = Post(part, Station(it.api, it.clock, random.Random(1), None), Configuration())
        told = await Trigger(Client(Reviewing(it.api)), post).answer(Posted("secret", {}))
        assert (told.status, told.document) == (503, {"message": "the descheduler of this process is starting"})


async def test_over_http_the_token_is_taken_from_the_header() -> None:
    seen: list[Posted] = []

    async def door(asked: Posted) -> Told:
        seen.append(asked)
        return Told(202, {"fine": True})

    server = await serve_health(
        host="127.0.0.1", port=0, alive=lambda: (), ready=lambda: (), registry=CollectorRegistry(), doors={"/x": door}
    )
    async with server, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{server.port}/x"
        async with session.post(f"{url}?a=b", headers={"Authorization": "Bearer abc"}) as answer:
            assert (answer.status, await answer.json()) == (202, {"fine": True})
        async with session.get(url) as answer:
            assert answer.status == 405
    assert seen == [Posted("abc", {"a": "b"})]
