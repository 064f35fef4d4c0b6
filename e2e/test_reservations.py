"""Reservations on a real control plane: the stories that the embedded cluster tells, with real workload controllers."""

from __future__ import annotations

import pytest

from e2e.reserving import STORIES, Story, ground
from restow.adapters.clock import SystemClock
from restow.client.verbs import Client
from restow.ports import Api


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_on_a_real_control_plane(story: Story, api: Api, client: Client, namespace: str) -> None:
    async with ground(api, client, namespace, SystemClock()) as it:
        await story(it)
