"""The fence: refuses writes of a process that may not be the leader any more.

A leader stops itself at `renew_deadline`, before another process may take over. But a request that was sent just before
may take effect after that. So no write is sent that could be answered later: the last `request_timeout` before the
deadline are closed for writes, and each write is given up after `request_timeout`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from restow.client.leader_election import LeaderElection
from restow.ports import Api, ApiError, OutcomeUnknown, Request, Response


class Fenced(ApiError):
    """Refused by this process, nothing was sent: it does not lead, or may stop leading before the answer comes."""


class FencedApi:
    """An Api that refuses writes unless `election` still holds when they are answered. Reads always pass."""

    def __init__(self, api: Api, election: LeaderElection) -> None:
        self._api = api
        self._election = election

    async def call(self, request: Request) -> Response:
        if request.verb in ("get", "list"):
            return await self._api.call(request)
        name = f"{request.verb} {request.resource.plural}"
        if asyncio.get_running_loop().time() > self._election.write_deadline():
            raise Fenced.because(403, "Fenced", f"{name} not sent: {self._election.identity} may not lead any more")
        timeout = self._election.timing.request_timeout
        try:
            async with asyncio.timeout(timeout):
                return await self._api.call(request)
        except TimeoutError:
            raise OutcomeUnknown.because(504, "Timeout", f"{name}: no answer within {timeout:g}s") from None

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        return self._api.watch(request)
