"""An API server that answers evictions in ways of its own: it is not asked without pause, and users see why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from restow.model import kinds
from restow.model.objects import Document
from restow.ports import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    OutcomeUnknown,
    Request,
    TooManyRequests,
)
from tests.control.migrations.migration_cluster import cluster_with_scheduler, pod_stays, running_controller
from tests.control.reservations.reservation_cluster import new_reservation, phase_and_reason
from tests.control.scheduler_cluster import FixedErrorApi, events_with_reason, unscheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time, pass_time, running_scheduler

DENIED = 'admission webhook "keep.example.com" denied the request: not today'
NO_DRY_RUN = 'admission webhook "keep.example.com" does not support dry run'
DOWN = "failed calling webhook: connection refused"
BLIND = Forbidden.because(403, "Forbidden", "nodes are forbidden")
NO_NAME = Invalid.because(400, "BadRequest", "Name parameter invalid: '..': may not be '..'")


def tries(request: Request) -> bool:
    return request.subresource == "eviction" and (b"dryRun" in request.body or "dryRun" in request.query)


def evicts(request: Request) -> bool:
    return request.subresource == "eviction" and not tries(request)


def looks_at_a_node(request: Request) -> bool:
    return (request.verb, request.resource.plural) == ("get", "nodes")


def means_no_name(request: Request) -> bool:
    """What real API servers have no answer to."""
    return ".." in (request.name, request.namespace)


@pytest.mark.parametrize(
    ("about", "error"),
    [
        pytest.param(evicts, Forbidden.because(403, "Forbidden", DENIED), id="forbidden, though the trial was not"),
        pytest.param(evicts, Invalid.because(400, "BadRequest", DENIED), id="a bad request, though the trial was not"),
        pytest.param(evicts, TooManyRequests.because(429, "", DENIED), id="too many, says a webhook"),
        pytest.param(evicts, Conflict.because(409, "Conflict", DENIED), id="a conflict, says a webhook"),
        pytest.param(tries, TooManyRequests.because(429, "", DENIED), id="too many, says a webhook to the trial"),
        pytest.param(tries, Invalid.because(400, "BadRequest", NO_DRY_RUN), id="a webhook that cannot only try"),
        pytest.param(tries, OutcomeUnknown.because(500, "InternalError", DOWN), id="a webhook that is down"),
        pytest.param(tries, ApiError.because(418, "", "a teapot"), id="something odd"),
    ],
)
@on_virtual_time
async def test_a_refused_eviction_is_reported_and_retried(about: Callable[[Request], bool], error: ApiError) -> None:
    async with cluster_with_scheduler() as it:
        api = FixedErrorApi(it.api, about, error)
        async with running_controller(api, it.clock):
            old = (await it.start(2))[0]
            await it.move(old)
            await pass_time(100)
            assert await it.told() == ("Running", "FailedEvict", str(error)) and await pod_stays(it, old)
            assert 1 < api.times_raised < 40
            api.error = None
            await pass_time(60)
            assert (await it.told())[0] == "Succeed"


@on_virtual_time
async def test_an_error_that_lasts_is_reported_as_an_event() -> None:
    async with (
        cluster_with_scheduler() as it,
        running_controller(FixedErrorApi(it.api, looks_at_a_node, BLIND), it.clock),
    ):
        old = (await it.start(2))[0]
        await it.move(old)
        await pass_time(60)
        told = await events_with_reason(it, "Interrupted", "PodMigrationJob")
        assert told and all(message.endswith("s: nodes are forbidden") for _, message in told), told
        assert len(told) < 5 and await pod_stays(it, old)


@pytest.mark.parametrize("reference", [{"name": ".."}, {"namespace": ".."}], ids=str)
@on_virtual_time
async def test_a_job_that_names_an_impossible_object_fails(reference: Document) -> None:
    async with (
        cluster_with_scheduler() as it,
        running_controller(FixedErrorApi(it.api, means_no_name, NO_NAME), it.clock),
    ):
        spec = {"podRef": {"namespace": "default", "name": "web", **reference}}
        await it.create(kinds.POD_MIGRATION_JOB, {"metadata": {"name": "move"}, "spec": spec})
        await pass_time(10)
        assert (await it.told())[:2] == ("Failed", "MissingPod")


@on_virtual_time
async def test_a_seat_on_an_impossible_node_name_is_lost() -> None:
    """A client has written it into the status of a reservation."""
    async with (
        unscheduled_cluster(nodes=2) as it,
        running_scheduler(FixedErrorApi(it.api, means_no_name, NO_NAME), it.clock),
    ):
        await it.create(kinds.RESERVATION, new_reservation(replicas=1))
        await pass_time(5)
        forged = {"placements": [{"task": "web", "index": 0, "nodeName": ".."}]}
        await it.client.patch(kinds.RESERVATION, "r", {"status": forged}, "default", subresource="status")
        await pass_time(10)
        assert await phase_and_reason(it) == ("Failed", "NodeGone")
