"""What the API server answers to what a move needs: a no for now, a no for good, and no word about it at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from restow.model import kinds
from restow.ports import (
    Api,
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Request,
    Response,
    StatusCause,
    StatusDetails,
    TooManyRequests,
)
from tests.control.migrations.limit_auditor import LimitAuditor
from tests.control.migrations.migration_cluster import (
    cluster_with_stub_scheduler,
    migration_arguments,
    pod_stays,
    running_controller,
)
from tests.control.migrations.test_changes_during_eviction import about_to_leave
from tests.control.scheduler_cluster import FixedErrorApi
from tests.sim.simulated_cluster import on_virtual_time, pass_time

QUOTA = Forbidden.because(403, "Forbidden", "exceeded quota")
BAD = Invalid.because(422, "Invalid", "spec.tasks: no")
NO_NAMESPACE = NotFound.because(404, "NotFound", "namespaces default not found")
BUSY = TooManyRequests.because(429, "TooManyRequests", "the server is busy")
BUDGET = TooManyRequests.because(
    429,
    "TooManyRequests",
    "Cannot evict pod as it would violate the pod's disruption budget.",
    StatusDetails(causes=[StatusCause(reason="DisruptionBudget", message="web needs 2 healthy pods and has 2")]),
)
RIGHTS = Forbidden.because(403, "Forbidden", "may not create evictions")


def reserves(request: Request) -> bool:
    return (request.verb, request.resource.plural) == ("create", "reservations")


def evicts(request: Request) -> bool:
    return request.subresource == "eviction"


@pytest.mark.parametrize(
    ("about", "answer", "told"),
    [
        pytest.param(reserves, QUOTA, ("Running", "FailedCreateReservation"), id="a quota"),
        pytest.param(evicts, RIGHTS, ("Running", "FailedEvict"), id="not our right"),
        pytest.param(evicts, BUSY, ("Running", None), id="it is busy, which is not about the pod"),
    ],
)
@on_virtual_time
async def test_a_temporary_refusal_is_reported_and_retried(
    about: Callable[[Request], bool], answer: ApiError, told: tuple[str, str | None]
) -> None:
    async with cluster_with_stub_scheduler() as it:
        api = FixedErrorApi(it.api, about, answer)
        async with running_controller(api, it.clock):
            old = (await it.start())[0]
            await it.move(old)
            await pass_time(10)
            assert (await it.told())[:2] == told and await pod_stays(it, old)
            assert told[1] is None or answer.status.message in ((await it.told())[2] or "")
            api.error = None
            await pass_time(60)
            assert (await it.told())[0] == "Succeed"


@pytest.mark.parametrize("answer", [BAD, NO_NAMESPACE], ids=["it is not accepted", "there is nowhere to make it"])
@on_virtual_time
async def test_a_reservation_that_is_finally_refused_fails_the_job(answer: ApiError) -> None:
    async with (
        cluster_with_stub_scheduler() as it,
        running_controller(FixedErrorApi(it.api, reserves, answer), it.clock),
    ):
        old = (await it.start())[0]
        await it.move(old)
        await pass_time(10)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Failed", "FailedCreateReservation") and answer.status.message in (message or "")
        assert await pod_stays(it, old)


def really_evicts(request: Request) -> bool:
    return evicts(request) and "dryRun" not in request.query


@on_virtual_time
async def test_an_eviction_refused_after_its_dry_run_is_reported_and_withdrawn() -> None:
    async with (
        cluster_with_stub_scheduler() as it,
        running_controller(FixedErrorApi(it.api, really_evicts, BUDGET), it.clock),
    ):
        old = (await it.start())[0]
        await it.move(old)
        await pass_time(10)
        phase, reason, message = await it.told()
        assert (phase, reason) == ("Running", "FailedEvict") and "needs 2 healthy pods" in (message or "")
        await it.set_status("move", phase="Aborted")
        await pass_time(5)
        assert await it.reservations() == [] and await pod_stays(it, old)


@on_virtual_time
async def test_a_changed_budget_is_asked_at_once() -> None:
    async with cluster_with_stub_scheduler() as it, running_controller(it.api, it.clock), about_to_leave(it) as old:
        await pass_time(0.5)
        await it.patch(kinds.POD_DISRUPTION_BUDGET, "web", {"spec": {"minAvailable": 1}})
        await pass_time(2)
        assert not await pod_stays(it, old)


# --- admission --------------------------------------------------------------------------------------------------------


class Silent:
    """An Api that writes down that the first job runs, and does not say so: neither at once nor by a watch."""

    def __init__(self, api: Api) -> None:
        self.lost = 0
        self._api = api

    async def call(self, request: Request) -> Response:
        response = await self._api.call(request)
        if request.subresource == "status" and request.name == "first" and b'"Running"' in request.body:
            self.lost += 1
            raise OutcomeUnknown.because(504, "Timeout", "no idea")
        return response

    async def watch(self, request: Request) -> AsyncIterator[bytes]:
        async for event in self._api.watch(request):
            if b'"name":"first"' not in event or b'"Running"' not in event:
                yield event


@on_virtual_time
async def test_an_admission_without_an_answer_counts_against_the_limits() -> None:
    """One pod may move at a time; the second job would go before the first."""
    section = {"maxMigratingPerWorkload": 1, "maxMigratingGlobally": 1}
    async with cluster_with_stub_scheduler() as it:
        first, second = await it.start(2)
        limits = LimitAuditor(it.api, migration_arguments(**section))
        api = Silent(it.api)
        async with running_controller(api, it.clock, **section):
            it.seats.refusing = "no room"
            await it.move(first, "first")
            await pass_time(0.2)
            await it.move(second, "second", annotations={"restow.sh/migration-priority": "5"})
            await pass_time(20)
            assert ((await it.told("first"))[0], (await it.told("second"))[0]) == ("Running", "Pending")
        assert (api.lost > 0, limits.faults) == (True, [])
