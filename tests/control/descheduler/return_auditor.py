"""Profiles with different aims, and an auditor that no pod goes to and fro between them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from restow.model import kinds
from restow.model.times import parse_time
from restow.ports import Api, NotFound, Request, Response
from tests.control.descheduler.descheduler_fixture import ScatteredCluster

COOL_DOWN = 60.0
PROFILES: dict[str, Any] = {
    "profiles": [
        {
            "name": "gather",
            "interval": "45s",
            "plugins": {"balance": {"enabled": ["Optimal"]}},
            "pluginConfig": [{"name": "Optimal", "args": {"objective": "pending", "workLimit": 60}}],
        },
        {
            "name": "tidy",
            "interval": "20s",
            "plugins": {"balance": {"enabled": ["Defragmentation", "LoadAware", "NodeResourceBalance"]}},
            "pluginConfig": [
                {
                    "name": "Defragmentation",
                    "args": {
                        "lowThresholds": {"cpu": 40},
                        "defragmentThresholds": {"cpu": 40},
                        "coolDownTime": int(COOL_DOWN),
                    },
                },
                {"name": "LoadAware", "args": {"thresholds": {"cpu": 40}, "targetThresholds": {"cpu": 50}}},
                {"name": "NodeResourceBalance", "args": {"maxThreshold": 0.1}},
            ],
        },
    ]
}


class ReturnAuditor:
    """An Api that records a fault when a pod is moved within the cool-down after its last move."""

    def __init__(self, it: ScatteredCluster, api: Api, faults: list[str]) -> None:
        self.watch = api.watch
        self._it = it
        self._api = api
        self._faults = faults

    async def call(self, request: Request) -> Response:
        if request.verb == "create" and request.resource.plural == kinds.POD_MIGRATION_JOB.plural:
            await self._judge(msgspec.json.decode(request.body))
        return await self._api.call(request)

    async def _judge(self, job: dict[str, Any]) -> None:
        about, where = job["spec"]["podRef"], job["metadata"]["annotations"]
        with suppress(NotFound):
            pod = await self._it.client.get(kinds.POD, about["name"], about["namespace"])
            notes = pod.metadata.annotations or {}
            since = self._it.clock.now() - parse_time(notes.get("restow.sh/moved-at", "1970-01-01T00:00:00Z"))
            if pod.metadata.uid == about["uid"] and since < COOL_DOWN - 1:  # times have whole seconds
                told = f"{about['name']} came from {notes['restow.sh/moved-from']} {since:g}s ago"
                self._faults.append(f"{told} and is to go to {where['restow.sh/target-node']}")
