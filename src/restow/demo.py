"""The demonstration of `restow demo`: idle capacity is scattered over the nodes of an embedded cluster, so that a gang
of large pods does not fit; a plan is made and carried out, every pod with its new seat before it leaves the old one;
the gang runs.

Each chapter acts on the embedded cluster through the API as a user would; the picture is drawn from what the API
returns.
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
from restow.control.descheduler import ApplyProgress
from restow.defaults import HOME
from restow.model.cluster.owner_chains import GROUP_NAME_ANNOTATIONS
from restow.model.kinds import DEPLOYMENT, NODE, POD, POD_GROUP
from restow.model.object_key import key_of
from restow.model.objects import Node, Pod
from restow.model.times import format_time
from restow.output import node_bars
from restow.output.html_report import render_page
from restow.output.node_bars import NodeUse
from restow.planning.plan import Plan
from restow.ports import STRATEGIC_PATCH
from restow.running.embedded_cluster import EMBEDDED_CONFIGURATION, EmbeddedCluster, embedded_cluster
from restow.running.one_shot_run import ClusterSession, apply_plan
from restow.snapshots import offline
from restow.snapshots.capture import capture_inventory

NAMESPACE = "default"
NODES = 8
RESOURCE = "cpu"
UNIT = 1000
BIG = 7 * UNIT
GANG, MEMBERS = "train", 3
FRAME_SECONDS = 0.2
READING_SECONDS = 1.5
CHAPTER_TIMEOUT = 30.0
PLANNING_STEPS = 200
WORKLOADS = {"api": (10, "2"), "web": (36, "1"), "cache": (8, "500m")}
COLOUR_ORDER = (*sorted(WORKLOADS), GANG)
"""The workloads in the order of their colours, so that a colour stays the same when the gang appears."""
SCALE_DOWN_STEPS = {"web": range(34, 15, -2), "api": range(9, 6, -1)}

# The template of rich loads a font from the network; this one does not.
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


class DemoState:
    """The cluster, and the state that chapters pass on to later ones."""

    def __init__(self, cluster: EmbeddedCluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.rng = rng
        self.title = Text()
        self.status_line = ""
        """The line under the picture."""
        self.nodes: list[Node] = []
        self.pods: list[Pod] = []
        """Nodes and pods as they were when the plan was made."""
        self.plan = Plan(strategy="")
        self.made = 0.0


class Chapter(msgspec.Struct, frozen=True):
    """A title, and the action behind it."""

    title: str
    act: Callable[[DemoState], Awaitable[None]]


class PackingFigures(msgspec.Struct, frozen=True, rename="camel"):
    """How well the pods are packed; CPU in cores."""

    pods: int
    idle_cpu: float
    big_pods_that_fit: int
    running_big_pods: int


class DemoReport(msgspec.Struct, frozen=True, rename="camel"):
    """The document of `restow demo -o json`."""

    nodes: int
    big_pod_cpu: float
    gang: int
    """The number of large pods that must start together."""
    refusal: str
    """The scheduler's message about the gang before the moves."""
    before: PackingFigures
    moves: int
    waves: int
    moved: int
    """Moves that succeeded."""
    after: PackingFigures
    seconds: float
    page: str

    @property
    def summary(self) -> str:
        enough = int(self.before.idle_cpu // self.big_pod_cpu)
        return (
            f"Before: {self.before.idle_cpu:g} cores idle, enough for {enough} pods of {self.big_pod_cpu:g}; "
            f"scattered as they are, {self.before.big_pods_that_fit} fit.\n"
            f"After {self.moved} moves, each into a seat reserved beforehand: "
            f"{self.after.running_big_pods} of the gang's {self.gang} pods run."
        )


def run(*, seed: int, as_json: bool, save: Path | None) -> None:
    """Run the demonstration, print it chapter by chapter or as JSON, and save the final view as SVG if asked."""
    report, view = asyncio.run(_play(Console(quiet=as_json, highlight=False), seed))
    if as_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        Console(highlight=False).print(report.summary, style="bold")
        Console(highlight=False, soft_wrap=True).print(f"HTML report of the plan: {report.page}")
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(_svg(Group(view, Text(report.summary))), encoding="utf-8")


async def _play(console: Console, seed: int) -> tuple[DemoReport, RenderableType]:
    began, rng = time.monotonic(), random.Random(seed)
    async with embedded_cluster(nodes=NODES, rng=rng) as cluster:
        state = DemoState(cluster, rng)
        async with _screen(console, state):
            for number, chapter in enumerate(CHAPTERS, start=1):
                state.title.plain = f"{number}/{len(CHAPTERS)}  {chapter.title}"
                await chapter.act(state)
                if console.is_terminal:
                    await asyncio.sleep(READING_SECONDS)
                else:
                    console.print(await _frame(state, coloured=False))
        state.title.plain = f"{NODES} nodes, as the API shows them"
        return await _report(state, time.monotonic() - began), await _frame(state)


# ---- chapters


async def _create_workloads(state: DemoState) -> None:
    for name, (replicas, cpu) in WORKLOADS.items():
        await state.client.create(DEPLOYMENT, _deployment(name, replicas, cpu), NAMESPACE)
        await _wait_until(state.client, _all_pods_ready)


async def _scale_down(state: DemoState) -> None:
    for name, steps in SCALE_DOWN_STEPS.items():
        for replicas in steps:
            await state.client.patch(DEPLOYMENT, name, {"spec": {"replicas": replicas}}, NAMESPACE)
            await _wait_until(state.client, _all_pods_ready)


async def _roll_out(state: DemoState) -> None:
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "example.com/cache:2"}]}}}}
    await state.client.patch(DEPLOYMENT, "cache", image, NAMESPACE, type=STRATEGIC_PATCH)
    await _wait_until(state.client, _all_pods_ready)


async def _create_gang(state: DemoState) -> None:
    group = {"metadata": {"name": GANG, "namespace": NAMESPACE}, "spec": {"minMember": MEMBERS}}
    await state.client.create(POD_GROUP, group)
    await state.client.create(DEPLOYMENT, _deployment(GANG, MEMBERS, str(BIG // UNIT), gang=GANG), NAMESPACE)
    await _wait_until(state.client, _whole_gang_is_pending)


async def _make_plan(state: DemoState) -> None:
    captured = await capture_inventory(state.client, lambda kind, number: None, lambda warning: None)
    state.nodes, state.pods, state.made = captured.of(NODE), captured.of(POD), time.time()
    plan_options = offline.PlanOptions(strategy="optimal", objective="pending", work_limit=PLANNING_STEPS)
    profile = EMBEDDED_CONFIGURATION.read_scheduler()
    state.plan = await asyncio.to_thread(
        offline.plan_offline, offline.OfflineCluster(captured), profile, EMBEDDED_CONFIGURATION, plan_options, time.time
    )
    state.status_line = f"planned: {len(state.plan.moves)} moves, after which {len(state.plan.places)} more pods fit"


async def _apply_plan(state: DemoState) -> None:
    session = ClusterSession(
        state.cluster.api, SystemClock(), random.Random(state.rng.getrandbits(64)), EMBEDDED_CONFIGURATION
    )

    def report(progress: ApplyProgress) -> None:
        state.status_line = f"{progress.succeeded} of {len(state.plan.moves)} moves done, wave {progress.wave}"

    await apply_plan(session, HOME, state.plan, report)


async def _wait_for_gang(state: DemoState) -> None:
    await _wait_until(state.client, _all_pods_ready)
    state.status_line = ""


CHAPTERS = (
    Chapter("workloads are created and fill the nodes", _create_workloads),
    Chapter("Deployments are scaled down step by step: idle capacity is scattered over all nodes", _scale_down),
    Chapter("a rolling update of one Deployment", _roll_out),
    Chapter(f"a gang of {MEMBERS} pods requests {BIG // UNIT} cores each: all of them start, or none", _create_gang),
    Chapter("restow plan --objective pending: which moves make room for the gang?", _make_plan),
    Chapter("restow apply: every pod has its new seat before it leaves the old one", _apply_plan),
    Chapter("the gang starts", _wait_for_gang),
)


async def _wait_until(client: Client, settled: Callable[[Client], Awaitable[bool]]) -> None:
    async with asyncio.timeout(CHAPTER_TIMEOUT):
        while not await settled(client):
            await asyncio.sleep(FRAME_SECONDS)


async def _all_pods_ready(client: Client) -> bool:
    deployments = (await client.list(DEPLOYMENT, NAMESPACE)).items
    for deployment in deployments:
        wanted, status = deployment.spec.replicas or 0, deployment.status
        if status.observed_generation != deployment.metadata.generation:
            return False
        if not (status.replicas or 0) == (status.updated_replicas or 0) == (status.ready_replicas or 0) == wanted:
            return False
    pods = (await client.list(POD, NAMESPACE)).items
    return len(pods) == sum(deployment.spec.replicas or 0 for deployment in deployments)


async def _whole_gang_is_pending(client: Client) -> bool:
    return len(await _unschedulable_pods(client)) == MEMBERS


async def _unschedulable_pods(client: Client) -> list[dict[str, str]]:
    """The pods that the scheduler could not place, each with its message."""
    return _unschedulable((await client.list(POD, NAMESPACE)).items)


def _unschedulable(pods: list[Pod]) -> list[dict[str, str]]:
    return [
        {"pod": pod.metadata.name, "message": condition.message or ""}
        for pod in pods
        for condition in pod.status.conditions or ()
        if condition.type == "PodScheduled" and condition.status == "False"
    ]


def _refusal(pods: list[Pod]) -> str:
    return next((pod["message"] for pod in _unschedulable(pods)), "")


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


# ---- drawing


@asynccontextmanager
async def _screen(console: Console, state: DemoState) -> AsyncIterator[None]:
    """On a terminal, redraw the picture while the chapters run."""
    if not console.is_terminal:
        yield
        return
    with Live(console=console, auto_refresh=False) as live:

        async def redraw() -> None:
            while True:
                live.update(await _frame(state), refresh=True)
                await asyncio.sleep(FRAME_SECONDS)

        drawing = asyncio.create_task(redraw())
        try:
            yield
            live.update(await _frame(state), refresh=True)
        finally:
            drawing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await drawing


async def _uses(client: Client) -> list[NodeUse]:
    nodes, pods = await client.list(NODE), await client.list(POD)
    return node_bars.node_uses(nodes.items, pods.items, RESOURCE)


async def _frame(state: DemoState, *, coloured: bool = True) -> RenderableType:
    uses = await _uses(state.client)
    parts: list[RenderableType] = [
        Text(state.title.plain, style="bold"),
        node_bars.node_table(uses, unit=UNIT, coloured=coloured, known=COLOUR_ORDER),
        node_bars.legend(uses, coloured=coloured, known=COLOUR_ORDER),
    ]
    parts += [
        Text.assemble(("pending ", "bold red"), f"{pod['pod']}: {pod['message']}")
        for pod in await _unschedulable_pods(state.client)
    ]
    if state.status_line:
        parts.append(Text(state.status_line, style="bold green" if coloured else ""))
    return Group(*parts, Text())


async def _report(state: DemoState, seconds: float) -> DemoReport:
    nodes, pods = await state.client.list(NODE), await state.client.list(POD)
    moves = [(move.namespace, move.pod) for move in state.plan.moves]
    existing = set(map(key_of, pods.items))
    return DemoReport(
        nodes=len(nodes.items),
        big_pod_cpu=BIG / UNIT,
        gang=MEMBERS,
        refusal=_refusal(state.pods),
        before=_packing_figures(state.nodes, state.pods),
        moves=len(moves),
        waves=len({move.wave for move in state.plan.moves}),
        moved=sum(name not in existing for name in moves),
        after=_packing_figures(nodes.items, pods.items),
        seconds=round(seconds, 1),
        page=str(_write_page(state)),
    )


def _packing_figures(nodes: list[Node], pods: list[Pod]) -> PackingFigures:
    uses = node_bars.node_uses(nodes, pods, RESOURCE)
    return PackingFigures(
        pods=sum(use.pods for use in uses),
        idle_cpu=sum(use.idle for use in uses) / UNIT,
        big_pods_that_fit=node_bars.count_fitting_pods(uses, BIG),
        running_big_pods=sum(node_bars.workload_of(pod) == GANG and pod.status.phase == "Running" for pod in pods),
    )


def _write_page(state: DemoState) -> Path:
    """Write the HTML report into a temporary directory."""
    path = Path(tempfile.mkdtemp(prefix="restow-demo-")) / "plan.html"
    text = render_page(state.plan, state.nodes, state.pods, resource=RESOURCE, made=format_time(state.made))
    path.write_text(text, encoding="utf-8")
    return path


def _svg(view: RenderableType) -> str:
    console = Console(record=True, width=88, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(view)
    return console.export_svg(title="restow demo", code_format=SVG)
