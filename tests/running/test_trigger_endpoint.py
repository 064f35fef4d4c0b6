"""The HTTP endpoint that runs the descheduler: authentication, authorization, and the answers."""

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

from restow.adapters.health_server import PostedRequest, PostResponse, serve_health
from restow.client.leader_election import LeaderElection
from restow.client.verbs import Client
from restow.control.executor import run_inline
from restow.model import kinds
from restow.model.times import format_micro_time
from restow.ports import Api, OutcomeUnknown, Request, Resource, Response
from restow.running.component_runner import ComponentRunner, SharedDependencies
from restow.running.components import DeschedulerComponent
from restow.running.configuration import Configuration
from restow.running.trigger_endpoint import TriggerEndpoint
from tests.control.descheduler.descheduler_fixture import scattered_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time

SCHEDULER = {"schedulerNames": ["restow", "default-scheduler"]}


class FakeReviews:
    """An Api that authenticates one token, `secret` of user ann, and allows ann everything or nothing."""

    def __init__(self, api: Api, *, allowed: bool = True) -> None:
        self.watch = api.watch
        self.reviewed: list[Any] = []
        self.down = ""
        """The plural of a kind that it answers with an error."""
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
            self.reviewed.append(msgspec.json.decode(request.body)["spec"])
            answer = {"allowed": self._allowed, "reason": "no role says so"}
        if answer is None:
            return await self._api.call(request)
        return Response(body=msgspec.json.encode({"status": answer}), code=201)


class HangsAfterJobs:
    """An Api that accepts some jobs and never answers the next create."""

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


async def request_token(api: Api, account: str, seconds: int) -> str:
    """A token for a service account, requested as kubectl create token does."""
    body = msgspec.json.encode({"spec": {"expirationSeconds": seconds}})
    resource = Resource("", "v1", "serviceaccounts")
    request = Request(
        verb="create", resource=resource, namespace="default", name=account, subresource="token", body=body
    )
    token: str = msgspec.json.decode((await api.call(request)).body)["status"]["token"]
    return token


@asynccontextmanager
async def endpoint(
    it: Any, *, allowed: bool = True, api: Api | None = None, elected: bool = False
) -> AsyncIterator[tuple[TriggerEndpoint, FakeReviews, ComponentRunner]]:
    """A process whose descheduler runs, and its endpoint."""

    def new_election(component: str) -> LeaderElection:
        return LeaderElection(
            Client(it.api),
            namespace="restow-system",
            name=f"restow-{component}",
            identity="this",
            clock=it.clock,
            rng=random.Random(2),
        )

    component = DeschedulerComponent(CollectorRegistry(), "restow-system", run_inline)
    shared = SharedDependencies(api or it.api, it.clock, random.Random(1), new_election if elected else None)
    runner = ComponentRunner(component, shared, Configuration(scheduler=SCHEDULER))
    reviews = FakeReviews(it.api, allowed=allowed)
    running = asyncio.create_task(runner.run())
    try:
        await pass_time(2)
        yield TriggerEndpoint(Client(reviews), runner), reviews, runner
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@on_virtual_time
async def test_user_that_may_create_jobs_may_run_a_profile() -> None:
    async with scattered_cluster() as it, endpoint(it) as (trigger, reviews, _):
        answer = await trigger.handle(PostedRequest("secret", {"dryRun": "true"}))
        assert (answer.status, len(answer.document["plan"]["moves"]), answer.document["jobs"]) == (200, 4, [])
        assert [spec["user"] for spec in reviews.reviewed] == ["ann"]
        wanted = {"group": "scheduling.koordinator.sh", "resource": "podmigrationjobs", "verb": "create"}
        assert reviews.reviewed[0]["resourceAttributes"] == wanted
        answer = await trigger.handle(PostedRequest("secret", {"profile": "default"}))
        assert (answer.status, len(answer.document["jobs"])) == (200, 4)
        answer = await trigger.handle(PostedRequest("secret", {}))
        assert (answer.status, "is under way" in answer.document["message"]) == (409, True)


@pytest.mark.parametrize(
    ("token", "query", "allowed", "status", "message"),
    [
        pytest.param("", {}, True, 401, "a bearer token that the cluster accepts is required", id="no token"),
        pytest.param("guess", {}, True, 401, "a bearer token that the cluster accepts is required", id="unknown token"),
        pytest.param("secret", {}, False, 403, "user ann cannot create podmigrationjobs", id="not authorized"),
        pytest.param("secret", {"profile": "x"}, True, 404, "no profile is called 'x'", id="unknown profile"),
        pytest.param(
            "secret", {"dryrun": "1"}, True, 400, "expected parameters are profile=NAME", id="unknown parameter"
        ),
        pytest.param(
            "secret",
            {"dryRun": "maybe"},
            True,
            400,
            "expected parameters are profile=NAME",
            id="dryRun is not a boolean",
        ),
    ],
)
@on_virtual_time
async def test_refused_request_creates_no_job(
    token: str, query: dict[str, str], allowed: bool, status: int, message: str
) -> None:
    async with scattered_cluster() as it, endpoint(it, allowed=allowed) as (trigger, *_):
        answer = await trigger.handle(PostedRequest(token, query))
        assert answer.status == status and message in answer.document["message"], answer
        assert await it.jobs() == []


@pytest.mark.parametrize(("seconds", "status"), [(590, 200), (610, 401)], ids=["just before expiry", "expired"])
@on_virtual_time
async def test_token_is_accepted_until_it_expires(seconds: float, status: int) -> None:
    """With the TokenReviews of the embedded cluster."""
    async with scattered_cluster() as it, endpoint(it) as (_, _, runner):
        await it.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "ann", "namespace": "default"}})
        token = await request_token(it.api, "ann", 600)
        await pass_time(seconds)
        answer = await TriggerEndpoint(Client(it.api), runner).handle(PostedRequest(token, {"dryRun": "true"}))
        assert answer.status == status, answer


@pytest.mark.parametrize("jobs", [0, 2], ids=lambda count: f"after {count} jobs")
@on_virtual_time
async def test_process_killed_during_a_run_does_not_block_the_next_run(jobs: int) -> None:
    async with scattered_cluster() as it:
        async with endpoint(it, api=HangsAfterJobs(it.api, jobs)) as (trigger, *_):
            request = asyncio.create_task(trigger.handle(PostedRequest("secret", {})))
            await pass_time(1)
            answer = await trigger.handle(PostedRequest("secret", {}))
            assert (answer.status, answer.document["message"]) == (409, "a cycle is under way")
            request.cancel()
        async with endpoint(it) as (trigger, *_):
            await pass_time(60)
            assert {one.status.phase for one in await it.jobs()} == ({"Succeed"} if jobs else set())
            answer = await trigger.handle(PostedRequest("secret", {}))
            assert (answer.status, len(answer.document["jobs"])) == (200, 4 - jobs)


@on_virtual_time
async def test_run_ends_when_its_descheduler_is_rebuilt_and_the_next_waits_for_its_jobs() -> None:
    """A new configuration during a run: the run with the old one must not continue beside the new descheduler."""
    async with (
        scattered_cluster(migrating=False) as it,
        endpoint(it, api=HangsAfterJobs(it.api, 2)) as (trigger, _, runner),
    ):
        request = asyncio.create_task(trigger.handle(PostedRequest("secret", {})))
        await pass_time(1)
        runner.configure(Configuration(scheduler=SCHEDULER, descheduler={"maxNoOfPodsToEvictTotal": 10}))
        await pass_time(2)
        answer = await request
        assert answer.status == 409
        assert answer.document["message"] == "the descheduler stopped; jobs that it created before go on"
        answer = await trigger.handle(PostedRequest("secret", {}))
        assert answer.status == 409 and "is under way: 2 of its 2 jobs have not ended" in answer.document["message"]


@on_virtual_time
async def test_lease_lost_during_a_run_creates_no_more_jobs() -> None:
    async with (
        scattered_cluster(migrating=False) as it,
        endpoint(it, api=HangsAfterJobs(it.api, 2), elected=True) as (trigger, *_),
    ):
        request = asyncio.create_task(trigger.handle(PostedRequest("secret", {})))
        await pass_time(1)
        stolen = {"spec": {"holderIdentity": "another", "renewTime": format_micro_time(it.clock.now())}}
        await it.client.patch(kinds.LEASE, "restow-descheduler", stolen, "restow-system")
        answer = await request
        assert (answer.status, "the descheduler stopped" in answer.document["message"]) == (409, True)
        answer = await trigger.handle(PostedRequest("secret", {}))
        assert (answer.status, answer.document["message"]) == (
            503,
            "the descheduler of this process is not running: standby, the lease is held by another",
        )
        assert len(await it.jobs()) == 2


@pytest.mark.parametrize("down", ["tokenreviews", "subjectaccessreviews"])
@on_virtual_time
async def test_failing_review_refuses_the_request(down: str) -> None:
    async with scattered_cluster() as it, endpoint(it) as (trigger, reviews, _):
        reviews.down = down
        answer = await trigger.handle(PostedRequest("secret", {}))
        assert (answer.status, answer.document["message"]) == (502, "error from the API server: it is down")
        assert await it.jobs() == []


@on_virtual_time
async def test_descheduler_that_does_not_run_answers_503() -> None:
    async with scattered_cluster() as it:
        component = DeschedulerComponent(CollectorRegistry(), "restow-system")
        runner = ComponentRunner(
            component, SharedDependencies(it.api, it.clock, random.Random(1), None), Configuration()
        )
        answer = await TriggerEndpoint(Client(FakeReviews(it.api)), runner).handle(PostedRequest("secret", {}))
        assert (answer.status, answer.document) == (
            503,
            {"message": "the descheduler of this process is not running: starting"},
        )


async def test_token_comes_from_the_authorization_header() -> None:
    seen: list[PostedRequest] = []

    async def handle(request: PostedRequest) -> PostResponse:
        seen.append(request)
        return PostResponse(202, {"fine": True})

    server = await serve_health(
        host="127.0.0.1",
        port=0,
        alive=lambda: (),
        ready=lambda: (),
        registry=CollectorRegistry(),
        post_handlers={"/x": handle},
    )
    async with server, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{server.port}/x"
        async with session.post(f"{url}?a=b", headers={"Authorization": "Bearer abc"}) as answer:
            assert (answer.status, await answer.json()) == (202, {"fine": True})
        async with session.get(url) as answer:
            assert answer.status == 405
    assert seen == [PostedRequest("abc", {"a": "b"})]
