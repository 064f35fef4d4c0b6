"""The HTTP endpoint that runs a profile of the descheduler now.

    curl -X POST -H "Authorization: Bearer $TOKEN" 'http://…:10290/deschedule?profile=pack&dryRun=true'

Takes a bearer token and a profile, returns the plan, or an error. A run can evict pods anywhere, so it is allowed for
users that may create PodMigrationJobs: the API server authenticates the token (TokenReview) and checks the right
(SubjectAccessReview).
"""

from __future__ import annotations

import logging
from typing import Any, Final

from restow.adapters.health_server import PostedRequest, PostResponse
from restow.client.verbs import Client
from restow.control.descheduler import Descheduler, DeschedulerRun, RunRefused
from restow.model.kinds import POD_MIGRATION_JOB, SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from restow.model.objects import UserInfo
from restow.model.wire import WireError
from restow.planning.plan import plan_document
from restow.ports import ApiError
from restow.running.component_runner import ComponentRunner

log = logging.getLogger(__name__)

TRIGGER_PATH: Final = "/deschedule"
_PARAMETERS: Final = ("profile", "dryRun")
_DRY_RUN_VALUES: Final = {"true": True, "false": False, "": False}


class TriggerEndpoint:
    def __init__(self, client: Client, runner: ComponentRunner) -> None:
        self._client = client
        self._runner = runner

    async def handle(self, request: PostedRequest) -> PostResponse:
        try:
            return await self._refusal(request) or await self._run(request)
        except (ApiError, WireError) as error:
            return _error(502, f"error from the API server: {error}")

    async def _refusal(self, request: PostedRequest) -> PostResponse | None:
        """The error for a request that is not authenticated (401) or not authorized (403); None if it may run."""
        user = await self._authenticate(request.token) if request.token else None
        if user is None:
            return _error(401, "a bearer token that the cluster accepts is required")
        wanted = {"group": POD_MIGRATION_JOB.group, "resource": POD_MIGRATION_JOB.plural, "verb": "create"}
        spec = {
            "user": user.username or "",
            "uid": user.uid or "",
            "groups": user.groups or [],
            "extra": user.extra or {},
            "resourceAttributes": wanted,
        }
        review = await self._client.create(SUBJECT_ACCESS_REVIEW, {"metadata": {}, "spec": spec})
        if review.status.allowed:
            log.info("descheduler run requested", extra={"user": user.username})
            return None
        reason = f": {review.status.reason}" if review.status.reason else ""
        return _error(403, f"user {user.username} cannot create {POD_MIGRATION_JOB.qualified_name}{reason}")

    async def _authenticate(self, token: str) -> UserInfo | None:
        review = await self._client.create(TOKEN_REVIEW, {"metadata": {}, "spec": {"token": token}})
        return review.status.user if review.status.authenticated else None

    async def _run(self, request: PostedRequest) -> PostResponse:
        unknown = [name for name in request.query if name not in _PARAMETERS]
        dry_run = _DRY_RUN_VALUES.get(request.query.get("dryRun", ""))
        if unknown or dry_run is None:
            return _error(400, f"expected parameters are profile=NAME and dryRun=true|false, got {dict(request.query)}")
        descheduler = self._runner.controller
        if not isinstance(descheduler, Descheduler):
            return _error(503, f"the descheduler of this process is not running: {self._runner}")
        try:
            run = await descheduler.trigger(request.query.get("profile") or None, dry_run=dry_run)
        except LookupError as error:
            return _error(404, str(error))
        except RunRefused as error:
            return _error(409, str(error))
        return PostResponse(200, _run_document(run))


def _run_document(run: DeschedulerRun) -> dict[str, Any]:
    removals = [
        {
            "namespace": removal.pod.metadata.namespace,
            "pod": removal.pod.metadata.name,
            "reason": removal.reason,
        }
        for removal in run.outcome.removals
    ]
    return {
        "profile": run.profile,
        "name": run.plan,
        "jobs": list(run.jobs),
        "plan": plan_document(run.outcome.plan),
        "removals": removals,
        "failures": dict(run.outcome.failures),
    }


def _error(status: int, message: str) -> PostResponse:
    return PostResponse(status, {"message": message})
