"""Triggering: the descheduler is told over HTTP to run a profile now.

    curl -X POST -H "Authorization: Bearer $TOKEN" 'http://…:10290/deschedule?profile=pack&dryRun=true'

Goes in: a bearer token and which profile. Comes out: the plan, or why not. A run evicts pods anywhere, so it is open to
whoever may create PodMigrationJobs: the cluster says whose token it is (TokenReview) and whether they may
(SubjectAccessReview).
"""

from __future__ import annotations

import logging
from typing import Any, Final

from restow.adapters.health import Posted, Told
from restow.client.verbs import Client
from restow.control.descheduler import Descheduler, Run, RunRefused
from restow.model.kinds import POD_MIGRATION_JOB, SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from restow.model.objects import UserInfo
from restow.model.wire import WireError
from restow.planning.plan import printed
from restow.ports import ApiError
from restow.running.posts import Post

log = logging.getLogger(__name__)

TRIGGER_PATH: Final = "/deschedule"
_KNOWN: Final = ("profile", "dryRun")
_WORDS: Final = {"true": True, "false": False, "": False}


class Trigger:
    def __init__(self, client: Client, post: Post) -> None:
        self._client = client
        self._post = post

    async def answer(self, asked: Posted) -> Told:
        try:
            return await self._admit(asked) or await self._run(asked)
        except (ApiError, WireError) as error:
            return _no(502, f"the API server says: {error}")

    async def _admit(self, asked: Posted) -> Told | None:
        """Why somebody is not let in; None if they are."""
        user = await self._who(asked.token) if asked.token else None
        if user is None:
            return _no(401, "a bearer token is needed that the cluster knows")
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
            log.info("run asked for", extra={"user": user.username})
            return None
        why = f": {review.status.reason}" if review.status.reason else ""
        return _no(403, f"{user.username} may not create {POD_MIGRATION_JOB.qualified_name}{why}")

    async def _who(self, token: str) -> UserInfo | None:
        review = await self._client.create(TOKEN_REVIEW, {"metadata": {}, "spec": {"token": token}})
        return review.status.user if review.status.authenticated else None

    async def _run(self, asked: Posted) -> Told:
        unknown = [name for name in asked.query if name not in _KNOWN]
        dry_run = _WORDS.get(asked.query.get("dryRun", ""))
        if unknown or dry_run is None:
            return _no(400, f"known are profile=NAME and dryRun=true, asked was {dict(asked.query)}")
        descheduler = self._post.component
        if not isinstance(descheduler, Descheduler):
            return _no(503, f"the descheduler of this process is {self._post}")
        try:
            run = await descheduler.trigger(asked.query.get("profile") or None, dry_run=dry_run)
        except LookupError as error:
            return _no(404, str(error))
        except RunRefused as error:
            return _no(409, str(error))
        return Told(200, _told(run))


def _told(run: Run) -> dict[str, Any]:
    removals = [
        {"namespace": one.pod.metadata.namespace, "pod": one.pod.metadata.name, "reason": one.reason}
        for one in run.outcome.removals
    ]
    return {
        "profile": run.profile,
        "name": run.plan,
        "jobs": list(run.jobs),
        "plan": printed(run.outcome.plan),
        "removals": removals,
        "failures": dict(run.outcome.failures),
    }


def _no(status: int, message: str) -> Told:
    return Told(status, {"message": message})
