"""A configuration file that changes while Restow runs: every component gets each valid change once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from restow.running.configuration import Configuration
from restow.running.configuration_file import ConfigurationFile
from tests.sim.simulated_cluster import on_virtual_time


class Recorder:
    """Records the configurations it gets."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def configure(self, configuration: Configuration) -> None:
        self.received.append(configuration.migration)


@on_virtual_time
async def test_valid_change_reaches_every_user_once_and_invalid_ones_none(tmp_path: Path) -> None:
    path, users = tmp_path / "c.yaml", [Recorder(), Recorder()]
    path.write_text("migration: {evictBurst: 1}\n")
    file = ConfigurationFile(path)
    file.read()
    watching = asyncio.create_task(file.watch_for_changes(users))
    received: list[list[Any]] = []
    for written in (1, -1, 2):
        path.write_text(f"migration: {{evictBurst: {written}}}\n")
        await asyncio.sleep(5)
        received += [list(users[0].received), list(users[1].received)]
    assert received == [[], [], [], [], [{"evictBurst": 2}], [{"evictBurst": 2}]]
    watching.cancel()
    await asyncio.wait([watching])
