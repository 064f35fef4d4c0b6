"""The command line: parses, hands over to the rest, prints. Heavy imports happen inside the commands that need them.

Stdout carries only the result. A mistake gives one line on stderr: exit code 2 for bad input, 1 for "could not".
"""

from __future__ import annotations

import asyncio
import gc
import io
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from restow import __version__, operating
from restow.mistakes import CouldNot, misfortunes, unwritable, user_mistakes
from restow.moving import KUBECONFIG, tell_other_configuration
from restow.operating import announce

if TYPE_CHECKING:
    from restow.configuration import Configuration
    from restow.model.inventory import Inventory
    from restow.model.objects import Pod
    from restow.model.resources import Vector
    from restow.offline import Cluster
    from restow.patience import Patience
    from restow.planning.plan import Plan
    from restow.scheduling.registry import Profile


_SHAPE_ADVICE = "name what a pod asks for, such as cpu=16,memory=64Gi"
_NOT_SETTLED = "the embedded cluster did not settle in time; is the machine very busy?"


@click.group(
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="restow")
@click.pass_context
def restow(context: click.Context) -> None:
    """Packs Kubernetes clusters safely: every pod has its new seat before it leaves the old one."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@restow.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the report.")
@click.option("--seed", type=int, default=7, show_default=True, help="Same seed, same names and uids.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Also save the last view as SVG.")
def demo(output: str, seed: int, picture: Path | None) -> None:
    """An embedded cluster whose capacity scatters: a plan, its moves, and the gang that then fits. Ends by itself."""
    from restow import demo as story
    from restow.app import PartStopped
    from restow.control.descheduler import Changed

    try:
        with misfortunes(Changed, PartStopped):
            story.run(seed=seed, as_json=output == "json", save=picture)
    except TimeoutError as problem:
        raise CouldNot(_NOT_SETTLED) from problem
    except OSError as problem:
        raise CouldNot(f"{problem.filename or 'output'}: {problem.strerror}") from problem


@restow.command()
@click.option("--port", type=click.IntRange(0, 65535), default=6444, show_default=True, help="0 picks a free one.")
@click.option("--nodes", type=click.IntRange(0, 10_000), default=3, show_default=True, help="How many Ready nodes.")
def dev(port: int, nodes: int) -> None:
    """An embedded cluster for kubectl, until Ctrl-C. The first line of output is the path of its kubeconfig."""
    from restow import app
    from restow.logs import log_to_stderr

    log_to_stderr()
    try:
        asyncio.run(app.until_stopped(app.serve_embedded(port=port, nodes=nodes, announce=announce)))
    except app.PartStopped as problem:
        raise CouldNot(str(problem)) from problem
    except TimeoutError as problem:
        raise CouldNot(_NOT_SETTLED) from problem
    except OSError as problem:
        if problem.filename:
            raise unwritable(problem) from problem
        advice = "; choose another with --port" if port else ""
        raise CouldNot(f"cannot serve on 127.0.0.1:{port}: {os.strerror(problem.errno or 0)}{advice}") from problem


SNAPSHOT_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
SNAPSHOT = click.option(
    "--snapshot",
    required=True,
    type=SNAPSHOT_FILE,
    help="What `restow snapshot` or `kubectl get nodes,pods,… -A -o json` printed; .gz accepted, - reads stdin.",
)
CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file; the sections that matter here are read.",
)
PLAN_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)
OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)


@restow.command()
@SNAPSHOT
@CONFIG
@OUTPUT
def schedule(snapshot: Path, config: Path | None, output: str) -> None:
    """Where the pending pods would go, and why not."""
    from restow import offline, patience, printing

    with user_mistakes(), patience.shown() as waiting:
        cluster, profile = _cluster(snapshot, waiting), _profile(_sections(config))
        waiting.doing("scheduling")
        result = offline.schedule(cluster, profile, time.time())
    printing.show(result, printing.schedule_table, output)


@restow.command()
@SNAPSHOT
@CONFIG
@OUTPUT
@click.argument("kind", metavar="pod", type=click.Choice(["pod"]))
@click.argument("name", metavar="NS/NAME")
def explain(snapshot: Path, config: Path | None, output: str, kind: str, name: str) -> None:
    """Why a pod is not scheduled or may not move, and where it could go."""
    from restow import offline, patience, printing

    with user_mistakes(), patience.shown() as waiting:
        sections = _sections(config)
        cluster = _cluster(snapshot, waiting)
        result = offline.explain(cluster, _profile(sections), sections, _find_pod(cluster, name), time.time())
    printing.show(result, printing.explanation_text, output)


@restow.command()
@click.option("--snapshot", type=SNAPSHOT_FILE, help="A snapshot file; without it, the cluster as it is now.")
@KUBECONFIG
@CONFIG
@click.option(
    "--strategy",
    type=click.Choice(["optimal", "defragmentation", "balance", "load-aware"]),
    help="By what rules; optimal by default.",
)
@click.option(
    "--objective",
    type=click.Choice(["free-nodes", "slots", "pending"]),
    default="free-nodes",
    show_default=True,
    help="What `optimal` is after.",
)
@click.option("--shape", default="", metavar="cpu=16,memory=64Gi", help="The pod that `slots` makes room for.")
@click.option("--max-moves", type=click.IntRange(0), default=50, show_default=True, help="How many pods move at most.")
@click.option("--time-limit", help="How long `optimal` may take: 5s by default, an hour where --work-limit is given.")
@click.option("--work-limit", type=click.IntRange(1), help="The same in steps, which are as many on every machine.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same plan.")
@PLAN_OUTPUT
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Also save it for replay and apply.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Also write it as one HTML page.")
def plan(
    snapshot: Path | None,
    kubeconfig: Path | None,
    config: Path | None,
    strategy: str | None,
    shape: str,
    time_limit: str | None,
    output: str,
    save: Path | None,
    report: Path | None,
    **asked: Any,
) -> None:
    """Which pods should move where, in which order, and what that brings."""
    from msgspec.structs import replace

    from restow import offline, patience, printing
    from restow.planning.plan import saved
    from restow.planning.strategies import InvalidPlan

    if snapshot is not None and kubeconfig is not None:
        raise click.UsageError("--snapshot and --kubeconfig exclude each other")
    with user_mistakes(), misfortunes(InvalidPlan), patience.shown() as waiting:
        wanted = offline.Asked(
            strategy=_strategy(strategy),
            shape=_shape(shape, asked["objective"]),
            time_limit=_seconds(time_limit or ("1h" if asked["work_limit"] else "5s")),
            **asked,
        )
        _tell_idle_objective(strategy)
        if snapshot is None:
            inventory, sections = _living(kubeconfig, config)
            cluster = _looked_at(inventory, waiting)
        else:
            sections, cluster = _sections(config), _cluster(snapshot, waiting)
        profile = _profile(sections)
        with waiting.search(wanted.time_limit):
            result = offline.plan(cluster, profile, sections, wanted, waiting.time, waiting.tell)
    if waiting.is_over:
        result = replace(result, seconds=round(waiting.passed, 3))
    try:
        if save:
            save.write_bytes(saved(result))
        if report:
            report.write_text(_page(result, cluster, wanted.shape), encoding="utf-8")
    except OSError as problem:
        raise unwritable(problem) from problem
    printing.show(result, printing.plan_table, output)


@restow.command()
@SNAPSHOT
@CONFIG
@click.option(
    "--plan",
    "written",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan that was saved, or printed as JSON or YAML.",
)
@PLAN_OUTPUT
def replay(snapshot: Path, config: Path | None, written: Path, output: str) -> None:
    """Whether a plan is valid, step by step. Exits with 1 if it is not."""
    from restow import offline, patience, printing
    from restow.planning.plan import read_plan

    with user_mistakes(), patience.shown() as waiting:
        plan = read_plan(written.read_bytes(), str(written))
        sections = _sections(config)
        cluster = _cluster(snapshot, waiting)
        waiting.doing("replaying")
        result = offline.replay(cluster, _profile(sections), sections, plan, time.time())
    printing.show(result, printing.replay_table, output)
    if not result.valid:
        tell_other_configuration(plan, sections)
        sys.exit(1)


def _page(plan: Plan, cluster: Cluster, shape: Vector) -> str:
    from restow.model.kinds import NODE
    from restow.model.times import format_time
    from restow.report import main_resource, page

    nodes, pods = cluster.inventory.of(NODE), cluster.pods
    resource = main_resource(plan, nodes, pods, shape)
    return page(plan, nodes, pods, resource=resource, made=format_time(time.time()))


def _strategy(name: str | None) -> str:
    from restow.planning.strategies import DEFAULT, STRATEGIES

    if name is not None and name not in STRATEGIES:
        known = ", ".join(sorted(STRATEGIES))
        raise click.BadParameter(
            f"{name} cannot be asked about a snapshot; there are {known}", param_hint="'--strategy'"
        )
    return name or DEFAULT


def _tell_idle_objective(strategy: str | None) -> None:
    """Only `optimal` has a choice of what it is after."""
    given = click.get_current_context().get_parameter_source("objective") is ParameterSource.COMMANDLINE
    if given and strategy not in (None, "optimal"):
        click.echo(f"--objective is for the strategy optimal; {strategy} goes by its own rules", err=True)


def _shape(text: str, objective: str) -> dict[str, int]:
    """The amounts of cpu=16,memory=64Gi."""
    from restow.model.quantity import QuantityError, amount

    shape: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, given, quantity = part.partition("=")
        if not given:
            raise click.BadParameter(f"{part}: {_SHAPE_ADVICE}", param_hint="'--shape'")
        try:
            shape[name.strip()] = amount(name.strip(), quantity.strip())
        except QuantityError as problem:
            raise click.BadParameter(f"{part}: {problem}", param_hint="'--shape'") from problem
    if any(not name or number <= 0 for name, number in shape.items()) or (objective == "slots" and not shape):
        raise click.BadParameter(_SHAPE_ADVICE, param_hint="'--shape'")
    return shape


def _seconds(text: str) -> float:
    from restow.model.times import TimeError, parse_duration

    try:
        return parse_duration(text)
    except TimeError as problem:
        raise click.BadParameter(str(problem), param_hint="'--time-limit'") from problem


def _find_pod(cluster: Cluster, name: str) -> Pod:
    """The pod called NS/NAME, or NAME in the namespace default."""
    namespace, _, short = name.rpartition("/")
    wanted = (namespace or "default", short)
    for pod in cluster.pods:
        if (pod.metadata.namespace or "default", pod.metadata.name) == wanted:
            return pod
    raise click.BadParameter(f"the snapshot has no pod {'/'.join(wanted)}", param_hint="'NS/NAME'")


def _cluster(path: Path, waiting: Patience) -> Cluster:
    """The cluster of a snapshot file."""
    waiting.doing(f"reading {path}")
    return _looked_at(_inventory(path), waiting)


def _looked_at(inventory: Inventory, waiting: Patience) -> Cluster:
    from restow.offline import Cluster

    waiting.doing("looking at every pod")
    return Cluster(inventory)


def _inventory(path: Path) -> Inventory:
    from restow.model.inventory import read_inventory
    from restow.model.kinds import NODE

    gc.disable()  # what is read stays to the end, so that looking for garbage would only take time
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    inventory = read_inventory(data, "stdin" if str(path) == "-" else str(path))
    if inventory.left_out:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.left_out.items()))
        click.echo(f"restow: left out, because nothing here depends on them: {counted}", err=True)
    if not inventory.of(NODE):
        click.echo("restow: the snapshot has no nodes; get nodes,pods,… -A", err=True)
    return inventory


def _living(kubeconfig: Path | None, config: Path | None) -> tuple[Inventory, Configuration]:
    """The cluster as it is now, and the configuration: what is written, else what is installed there."""
    from restow.adapters.kubernetes import ConfigError
    from restow.capture import CannotList
    from restow.ports import ApiError

    gc.disable()
    with misfortunes(CannotList, ApiError):
        try:
            sections = _sections(config) if config else operating.living_configuration(kubeconfig)
            return operating.living_inventory(kubeconfig), sections
        except ConfigError as problem:
            advice = "" if kubeconfig else "; or name a file with --snapshot"
            raise click.UsageError(f"{problem}{advice}") from problem


def _sections(path: Path | None) -> Configuration:
    from restow.configuration import Configuration, read_configuration

    return read_configuration(path.read_bytes(), str(path)) if path else Configuration()


def _profile(sections: Configuration) -> Profile:
    """The scheduler that the configuration describes; the default one without it."""
    from restow.scheduling.registry import installed, read_profile

    return read_profile(sections.scheduler, installed())


for command in operating.COMMANDS:
    restow.add_command(command)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a picture with question marks is better than none
            stream.reconfigure(errors="replace")
    try:
        try:
            code = restow.main(standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as problem:
            raise unwritable(problem) from problem
    except click.ClickException as mistake:
        click.echo(f"restow: {' '.join(mistake.format_message().split())}", err=True)
        code = mistake.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code or 0)
