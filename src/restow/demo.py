"""The story `restow demo` tells: a cluster lives, its capacity scatters, and a pod that ought to fit does not.

Chapters act on the embedded cluster through the API as any user would; the picture is drawn from what the API says.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from restow import picture
from restow.app import embedded_cluster
from restow.client.verbs import Client
from restow.model.kinds import DEPLOYMENT, NODE, POD
from restow.picture import NodeUse

NAMESPACE = "default"
NODES = 8
RESOURCE = "cpu"
UNIT = 1000
BIG = 7 * UNIT
FRAME_SECONDS = 0.2
READING_SECONDS = 1.5
PATIENCE_SECONDS = 30.0
WORKLOADS = {"api": (10, "2"), "web": (36, "1"), "cache": (8, "500m")}
FALLING = {"web": range(34, 15, -2), "api": range(9, 6, -1)}

# rich's own template loads a font from the network; this one does not.
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="restow demo">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


class Chapter(msgspec.Struct, frozen=True):
    """A sentence for the reader, and what happens."""

    title: str
    act: Callable[[Client], Awaitable[None]]


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What the last picture means, in numbers; cpu in cores."""

    nodes: int
    pods: int
    idle_cpu: float
    big_pod_cpu: float
    big_pods_that_fit: int
    big_pods_if_gathered: int
    waiting: list[dict[str, str]]

    @property
    def sentence(self) -> str:
        return (
            f"{self.idle_cpu:g} cores are idle, enough for {self.big_pods_if_gathered} pods of {self.big_pod_cpu:g}; "
            f"as they lie, {self.big_pods_that_fit} fit."
        )


def run(*, seed: int, as_json: bool, save: Path | None) -> None:
    """Tell the story on the terminal (quietly for JSON), print the report, save the last view if asked."""
    report, view = asyncio.run(_tell(Console(quiet=as_json, highlight=False), seed))
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        Console(highlight=False).print(report.sentence, style="bold")
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(_svg(Group(view, Text(report.sentence))), encoding="utf-8")


async def _tell(console: Console, seed: int) -> tuple[Report, RenderableType]:
    async with embedded_cluster(nodes=NODES, rng=random.Random(seed)) as cluster:
        client = cluster.client
        title = Text()
        async with _screen(console, client, title):
            for number, chapter in enumerate(CHAPTERS, start=1):
                title.plain = f"{number}/{len(CHAPTERS)}  {chapter.title}"
                await chapter.act(client)
                if console.is_terminal:
                    await asyncio.sleep(READING_SECONDS)
                else:
                    console.print(await _frame(client, title, coloured=False))
        return await _report(client), await _frame(client, Text(f"{NODES} nodes, as the API shows them"))


# ---- chapters


async def _arrive(client: Client) -> None:
    for name, (replicas, cpu) in WORKLOADS.items():
        await client.create(DEPLOYMENT, _deployment(name, replicas, cpu), NAMESPACE)
        await _until(client, _all_ready)


async def _shrink(client: Client) -> None:
    for name, steps in FALLING.items():
        for replicas in steps:
            await client.patch(DEPLOYMENT, name, {"spec": {"replicas": replicas}}, NAMESPACE)
            await _until(client, _all_ready)


async def _roll(client: Client) -> None:
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "example.com/cache:2"}]}}}}
    await client.patch(DEPLOYMENT, "cache", image, NAMESPACE, type="application/strategic-merge-patch+json")
    await _until(client, _all_ready)


async def _refuse(client: Client) -> None:
    big = _deployment("train", 1, str(BIG // UNIT))
    await client.create(DEPLOYMENT, big, NAMESPACE)
    await _until(client, _somebody_waits)


CHAPTERS = (
    Chapter("workloads arrive and fill the nodes", _arrive),
    Chapter("traffic falls step by step, Deployments are scaled down: holes open everywhere", _shrink),
    Chapter("one Deployment rolls to a new image, surge first", _roll),
    Chapter(f"a pod asks for {BIG // UNIT} cores", _refuse),
)


async def _until(client: Client, settled: Callable[[Client], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await settled(client):
            await asyncio.sleep(FRAME_SECONDS)


async def _all_ready(client: Client) -> bool:
    deployments = (await client.list(DEPLOYMENT, NAMESPACE)).items
    for each in deployments:
        wanted, status = each.spec.replicas or 0, each.status
        if status.observed_generation != each.metadata.generation:
            return False
        if not (status.replicas or 0) == (status.updated_replicas or 0) == (status.ready_replicas or 0) == wanted:
            return False
    pods = (await client.list(POD, NAMESPACE)).items
    return len(pods) == sum(each.spec.replicas or 0 for each in deployments)


async def _somebody_waits(client: Client) -> bool:
    return bool(await _waiting(client))


async def _waiting(client: Client) -> list[dict[str, str]]:
    """The pods nobody could place, each with the scheduler's sentence."""
    pods = (await client.list(POD, NAMESPACE)).items
    return [
        {"namespace": NAMESPACE, "pod": pod.metadata.name or "", "message": condition.message or ""}
        for pod in pods
        for condition in pod.status.conditions or ()
        if condition.type == "PodScheduled" and condition.status == "False"
    ]


def _deployment(name: str, replicas: int, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": f"example.com/{name}:1", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


# ---- showing


@asynccontextmanager
async def _screen(console: Console, client: Client, title: Text) -> AsyncIterator[None]:
    """Redraw the picture while the chapters run, where there is a screen to draw on."""
    if not console.is_terminal:
        yield
        return
    with Live(console=console, auto_refresh=False) as live:

        async def redraw() -> None:
            while True:
                live.update(await _frame(client, title), refresh=True)
                await asyncio.sleep(FRAME_SECONDS)

        drawing = asyncio.create_task(redraw())
        try:
            yield
            live.update(await _frame(client, title), refresh=True)
        finally:
            drawing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await drawing


async def _uses(client: Client) -> list[NodeUse]:
    nodes, pods = await client.list(NODE), await client.list(POD)
    return picture.node_uses(nodes.items, pods.items, RESOURCE)


async def _frame(client: Client, title: Text, *, coloured: bool = True) -> RenderableType:
    uses = await _uses(client)
    parts: list[RenderableType] = [
        Text(title.plain, style="bold"),
        picture.table(uses, unit=UNIT, coloured=coloured),
        picture.legend(uses, coloured=coloured),
    ]
    parts += [
        Text.assemble(("waiting ", "bold red"), f"{each['pod']}: {each['message']}") for each in await _waiting(client)
    ]
    return Group(*parts, Text())


async def _report(client: Client) -> Report:
    uses = await _uses(client)
    idle = sum(use.idle for use in uses)
    return Report(
        nodes=len(uses),
        pods=sum(use.pods for use in uses),
        idle_cpu=idle / UNIT,
        big_pod_cpu=BIG / UNIT,
        big_pods_that_fit=picture.slots(uses, BIG),
        big_pods_if_gathered=idle // BIG,
        waiting=await _waiting(client),
    )


def _svg(view: RenderableType) -> str:
    console = Console(record=True, width=88, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(view)
    return console.export_svg(title="restow demo", code_format=SVG)
