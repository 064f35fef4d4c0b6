"""The stories of reservations that a real control plane tells (`e2e/test_reservations.py`), on the embedded cluster."""

from __future__ import annotations

import pytest

from e2e.reservation_stories import STORIES, Story, story_cluster
from restow.client.verbs import Client
from restow.model.kinds import NAMESPACE
from tests.control.scheduler_cluster import unscheduled_cluster
from tests.sim.simulated_cluster import on_virtual_time


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@on_virtual_time
async def test_reservation_story_on_the_embedded_cluster(story: Story) -> None:
    async with unscheduled_cluster(nodes=0) as it:
        await it.create(NAMESPACE, {"metadata": {"name": "stories"}})
        async with story_cluster(it.api, Client(it.api), "stories", it.clock) as place:
            await story(place)
