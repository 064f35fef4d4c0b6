"""A configuration file that is written to while Restow runs: its posts hear what it says, once, if it can be read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from restow.running.configuration import Configuration
from restow.running.process import ConfigurationFile
from tests.sim.stage import virtual


class Listener:
    """A post that only listens."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def configure(self, configuration: Configuration) -> None:
        self.heard.append(configuration.migration)


@virtual
async def test_every_post_hears_once_of_a_file_that_has_changed_for_good(tmp_path: Path) -> None:
    path, posts = tmp_path / "c.yaml", [Listener(), Listener()]
    path.write_text("migration: {evictBurst: 1}\n")
    file = ConfigurationFile(path)
    file.read()
    following = asyncio.create_task(file.follow(posts))
    heard: list[list[Any]] = []
    for written in (1, -1, 2):
        path.write_text(f"migration: {{evictBurst: {written}}}\n")
        await asyncio.sleep(5)
        heard += [list(posts[0].heard), list(posts[1].heard)]
    assert heard == [[], [], [], [], [{"evictBurst": 2}], [{"evictBurst": 2}]]
    following.cancel()
    await asyncio.wait([following])
