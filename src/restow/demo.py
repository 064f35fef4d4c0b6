"""The story `restow demo` tells: a cluster lives, its capacity scatters, a gang that ought to fit does not; a plan is
made and carried out, every pod with its new seat before it leaves the old one, and the gang runs.

Chapters act on the embedded cluster through the API as any user would; the picture is drawn from what the API says.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from restow.adapters.clock import SystemClock
from restow.client.verbs import Client
from restow.control.descheduler import Progress
from restow.defaults import HOME
from restow.model.cluster.names import key_of
from restow.model.cluster.owners import GROUP_NAME_ANNOTATIONS
from restow.model.kinds import DEPLOYMENT, NODE, POD, POD_GROUP
from restow.model.objects import Node, Pod
from restow.model.times import format_time
from restow.planning.plan import Plan
from restow.ports import STRATEGIC_PATCH
from restow.running.acting import Bearing, carry_out
from restow.running.embedded import EMBEDDED, EmbeddedCluster, embedded_cluster
from restow.showing import picture
from restow.showing.picture import NodeUse
from restow.showing.report import page
from restow.snapshots import offline
from restow.snapshots.capture import inventory

NAMESPACE = "default"
NODES = 8
RESOURCE = "cpu"
UNIT = 1000
BIG = 7 * UNIT
GANG, MEMBERS = "train", 3
FRAME_SECONDS = 0.2
READING_SECONDS = 1.5
PATIENCE_SECONDS = 30.0
PLANNING_STEPS = 200
WORKLOADS = {"api": (10, "2"), "web": (36, "1"), "cache": (8, "500m")}
ACTORS = (*sorted(WORKLOADS), GANG)
"""In the order of their colours, which stay theirs when the last one comes."""
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


class Stage:
    """The cluster, and what the chapters leave for each other."""

    def __init__(self, cluster: EmbeddedCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.rng = rng
        self.title = Text()
        self.news = ""
        """A line under the picture."""
        self.nodes: list[Node] = []
        self.pods: list[Pod] = []
        """As they were when the plan was made."""
        self.plan = Plan(strategy="")
        self.made = 0.0


class Chapter(msgspec.Struct, frozen=True):
    """A sentence for the reader, and what happens."""

    title: str
    act: Callable[[Stage], Awaitable[None]]


class Lie(msgspec.Struct, frozen=True, rename="camel"):
    """How the pods lie, in numbers; cpu in cores."""

    pods: int
    idle_cpu: float
    big_pods_that_fit: int
    running_big_pods: int


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """What the story came to."""

    nodes: int
    big_pod_cpu: float
    gang: int
    """How many big pods must start together."""
    refusal: str
    """What the scheduler said of the gang before anything moved."""
    before: Lie
    moves: int
    waves: int
    moved: int
    """Moves that succeeded."""
    after: Lie
    seconds: float
    page: str

    @property
    def sentence(self) -> str:
        enough = int(self.before.idle_cpu // self.big_pod_cpu)
        return (
            f"Before: {self.before.idle_cpu:g} cores idle, enough for {enough} pods of {self.big_pod_cpu:g}; "
            f"as they lay, {self.before.big_pods_that_fit} fit.\n"
            f"After {self.moved} moves, each pod with its new seat before it left the old one: "
            f"{self.after.running_big_pods} of the gang's {self.gang} run."
        )


def run(*, seed: int, as_json: bool, save: Path | None) -> None:
    """Tell the story on the terminal (quietly for JSON), print the report, save the last view if asked."""
    report, view = asyncio.run(_tell(Console(quiet=as_json, highlight=False), seed))
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        Console(highlight=False).print(report.sentence, style="bold")
        Console(highlight=False, soft_wrap=True).print(f"The plan, before and after, as a page: {report.page}")
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(_svg(Group(view, Text(report.sentence))), encoding="utf-8")


async def _tell(console: Console, seed: int) -> tuple[Report, RenderableType]:
    began, rng = time.monotonic(), random.Random(seed)
    async with embedded_cluster(nodes=NODES, rng=rng) as cluster:
        stage = Stage(cluster, rng)
        async with _screen(console, stage):
            for number, chapter in enumerate(CHAPTERS, start=1):
                stage.title.plain = f"{number}/{len(CHAPTERS)}  {chapter.title}"
                await chapter.act(stage)
                if console.is_terminal:
                    await asyncio.sleep(READING_SECONDS)
                else:
                    console.print(await _frame(stage, coloured=False))
        stage.title.plain = f"{NODES} nodes, as the API shows them"
        return await _report(stage, time.monotonic() - began), await _frame(stage)


# ---- chapters


async def _arrive(stage: Stage) -> None:
    for name, (replicas, cpu) in WORKLOADS.items():
        await stage.client.create(DEPLOYMENT, _deployment(name, replicas, cpu), NAMESPACE)
        await _until(stage.client, _all_ready)


async def _shrink(stage: Stage) -> None:
    for name, steps in FALLING.items():
        for replicas in steps:
            await stage.client.patch(DEPLOYMENT, name, {"spec": {"replicas": replicas}}, NAMESPACE)
            await _until(stage.client, _all_ready)


async def _roll(stage: Stage) -> None:
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "example.com/cache:2"}]}}}}
    await stage.client.patch(DEPLOYMENT, "cache", image, NAMESPACE, type=STRATEGIC_PATCH)
    await _until(stage.client, _all_ready)


async def _refuse(stage: Stage) -> None:
    group = {"metadata": {"name": GANG, "namespace": NAMESPACE}, "spec": {"minMember": MEMBERS}}
    await stage.client.create(POD_GROUP, group)
    await stage.client.create(DEPLOYMENT, _deployment(GANG, MEMBERS, str(BIG // UNIT), gang=GANG), NAMESPACE)
    await _until(stage.client, _all_of_gang_wait)


async def _make_plan(stage: Stage) -> None:
    seen = await inventory(stage.client, lambda kind, number: None, lambda told: None)
    stage.nodes, stage.pods, stage.made = seen.of(NODE), seen.of(POD), time.time()
    asked = offline.Wish(strategy="optimal", objective="pending", work_limit=PLANNING_STEPS)
    profile = EMBEDDED.read_scheduler()
    stage.plan = await asyncio.to_thread(offline.plan, offline.Cluster(seen), profile, EMBEDDED, asked, time.time)
    stage.news = f"planned: {len(stage.plan.moves)} moves, after which {len(stage.plan.places)} pods more fit"


async def _carry_out(stage: Stage) -> None:
    bearing = Bearing(stage.cluster.api, SystemClock(), random.Random(stage.rng.getrandbits(64)), EMBEDDED)

    def tell(progress: Progress) -> None:
        stage.news = f"{progress.succeeded} of {len(stage.plan.moves)} moves done, wave {progress.wave}"

    await carry_out(bearing, HOME, stage.plan, tell)


async def _start(stage: Stage) -> None:
    await _until(stage.client, _all_ready)
    stage.news = ""


CHAPTERS = (
    Chapter("workloads arrive and fill the nodes", _arrive),
    Chapter("traffic falls step by step, Deployments are scaled down: holes open everywhere", _shrink),
    Chapter("one Deployment rolls to a new image, surge first", _roll),
    Chapter(f"a gang of {MEMBERS} pods asks for {BIG // UNIT} cores each: all at once or not at all", _refuse),
    Chapter("restow plan --objective pending: which moves let it in?", _make_plan),
    Chapter("restow apply: every pod has its new seat before it leaves the old one", _carry_out),
    Chapter("the gang starts", _start),
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


async def _all_of_gang_wait(client: Client) -> bool:
    return len(await _waiting(client)) == MEMBERS


async def _waiting(client: Client) -> list[dict[str, str]]:
    """The pods nobody could place, each with the scheduler's sentence."""
    return _refused((await client.list(POD, NAMESPACE)).items)


def _refused(pods: list[Pod]) -> list[dict[str, str]]:
    return [
        {"pod": pod.metadata.name, "message": condition.message or ""}
        for pod in pods
        for condition in pod.status.conditions or ()
        if condition.type == "PodScheduled" and condition.status == "False"
    ]


def _refusal(pods: list[Pod]) -> str:
    return next((each["message"] for each in _refused(pods)), "")


def _deployment(name: str, replicas: int, cpu: str, gang: str | None = None) -> dict[str, Any]:
    container = {"name": "main", "image": f"example.com/{name}:1", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": name}
    annotations = {GROUP_NAME_ANNOTATIONS[0]: gang} if gang else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"containers": [container]},
            },
        },
    }


# ---- showing


@asynccontextmanager
async def _screen(console: Console, stage: Stage) -> AsyncIterator[None]:
    """Redraw the picture while the chapters run, where there is a screen to draw on."""
    if not console.is_terminal:
        yield
        return
    with Live(console=console, auto_refresh=False) as live:

        async def redraw() -> None:
            while True:
                live.update(await _frame(stage), refresh=True)
                await asyncio.sleep(FRAME_SECONDS)

        drawing = asyncio.create_task(redraw())
        try:
            yield
            live.update(await _frame(stage), refresh=True)
        finally:
            drawing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await drawing


async def _uses(client: Client) -> list[NodeUse]:
    nodes, pods = await client.list(NODE), await client.list(POD)
    return picture.node_uses(nodes.items, pods.items, RESOURCE)


async def _frame(stage: Stage, *, coloured: bool = True) -> RenderableType:
    uses = await _uses(stage.client)
    parts: list[RenderableType] = [
        Text(stage.title.plain, style="bold"),
        picture.table(uses, unit=UNIT, coloured=coloured, known=ACTORS),
        picture.legend(uses, coloured=coloured, known=ACTORS),
    ]
    parts += [
        Text.assemble(("waiting ", "bold red"), f"{each['pod']}: {each['message']}")
        for each in await _waiting(stage.client)
    ]
    if stage.news:
        parts.append(Text(stage.news, style="bold green" if coloured else ""))
    return Group(*parts, Text())


async def _report(stage: Stage, seconds: float) -> Report:
    nodes, pods = await stage.client.list(NODE), await stage.client.list(POD)
    moves = [(move.namespace, move.pod) for move in stage.plan.moves]
    there = set(map(key_of, pods.items))
    return Report(
        nodes=len(nodes.items),
        big_pod_cpu=BIG / UNIT,
        gang=MEMBERS,
        refusal=_refusal(stage.pods),
        before=_lie(stage.nodes, stage.pods),
        moves=len(moves),
        waves=len({move.wave for move in stage.plan.moves}),
        moved=sum(name not in there for name in moves),
        after=_lie(nodes.items, pods.items),
        seconds=round(seconds, 1),
        page=str(_write_page(stage)),
    )


def _lie(nodes: list[Node], pods: list[Pod]) -> Lie:
    uses = picture.node_uses(nodes, pods, RESOURCE)
    return Lie(
        pods=sum(use.pods for use in uses),
        idle_cpu=sum(use.idle for use in uses) / UNIT,
        big_pods_that_fit=picture.slots(uses, BIG),
        running_big_pods=sum(picture.workload_of(pod) == GANG and pod.status.phase == "Running" for pod in pods),
    )


def _write_page(stage: Stage) -> Path:
    """Keep the plan as a page where temporary files are."""
    path = Path(tempfile.mkdtemp(prefix="restow-demo-")) / "plan.html"
    text = page(stage.plan, stage.nodes, stage.pods, resource=RESOURCE, made=format_time(stage.made))
    path.write_text(text, encoding="utf-8")
    return path


def _svg(view: RenderableType) -> str:
    console = Console(record=True, width=88, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(view)
    return console.export_svg(title="restow demo", code_format=SVG)
