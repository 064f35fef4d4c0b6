"""The page that `restow plan --report` writes, in a real browser without a network."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from e2e.browser import Page, browser, opened
from restow.cli import restow

PROGRAM = browser()
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="no browser on the PATH: chromium or chrome"),
    pytest.mark.timeout(120),
]
NODES = 8
WORKLOADS = 3


def node(name: str) -> dict[str, Any]:
    offered = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": offered}}


def pod(number: int) -> dict[str, Any]:
    """One small pod on each node; markup in its workload's name stays text."""
    of = f"web<b>{number % WORKLOADS}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of, "uid": of, "controller": True}
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "2"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"p{number}",
            "namespace": "default",
            "uid": str(number),
            "labels": {"app": of},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": f"n{number}", "schedulerName": "restow", "containers": [container]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    """A plan that frees nodes; its page is beside the snapshot."""
    items = [*(node(f"n{number}") for number in range(NODES)), *(pod(number) for number in range(NODES))]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    files = ["--snapshot", str(tmp_path / "cluster.json"), "--report", str(tmp_path / "plan.html")]
    done = CliRunner().invoke(restow, ["plan", *files, "-o", "json"])
    assert done.exit_code == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    assert plan["moves"]
    return plan


@pytest.fixture
async def page(plan: dict[str, Any], tmp_path: Path) -> AsyncIterator[Page]:
    assert PROGRAM is not None
    async with opened(PROGRAM, (tmp_path / "plan.html").as_uri(), tmp_path / "browser") as shown:
        yield shown


async def test_nothing_leaves_and_nothing_is_wrong(page: Page, tmp_path: Path) -> None:
    assert page.requests == [(tmp_path / "plan.html").as_uri()]
    assert page.complaints == []
    assert await page.evaluate("document.scripts.length + document.querySelectorAll('link, img').length") == 0


async def test_every_node_that_changes_is_drawn_before_and_after(page: Page, plan: dict[str, Any]) -> None:
    changed = {move[side] for move in plan["moves"] for side in ("from", "to")}
    rows = "[...document.querySelectorAll('section > .wide tbody tr')].filter(row => row.querySelector('.bar'))"
    drawn = await page.evaluate(f"{rows}.map(row => row.querySelector('th').textContent)")
    assert set(drawn) == changed
    bars = await page.evaluate(
        f"{rows}.flatMap(row => [...row.querySelectorAll('.bar div')].map(bar => bar.getBoundingClientRect().width))"
    )
    assert len(bars) == 2 * len(changed) and min(bars) > 50
    parts = "[...document.querySelectorAll('.bar i[class^=c]')]"
    colours = await page.evaluate(f"[...new Set({parts}.map(part => getComputedStyle(part).backgroundColor))]")
    assert len(colours) == WORKLOADS and "rgba(0, 0, 0, 0)" not in colours


async def test_report_shows_moves_in_a_table(page: Page, plan: dict[str, Any]) -> None:
    section = "[...document.querySelectorAll('section')].find(one => one.querySelector('h2').textContent == 'Moves')"
    cells = await page.evaluate(
        f"[...{section}.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert [(row[2], row[4], row[5]) for row in cells] == [
        (f"{move['namespace']}/{move['pod']}", move["from"], move["to"]) for move in plan["moves"]
    ]


async def test_names_with_markup_are_text(page: Page) -> None:
    assert await page.evaluate("document.querySelectorAll('.legend b').length") == 0
    assert await page.evaluate("document.querySelector('.legend').textContent.includes('web<b>')")


async def test_on_a_narrow_screen_only_tables_scroll(page: Page) -> None:
    await page.resize(400, 800)
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
