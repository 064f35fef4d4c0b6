"""The commands that ask about a cluster and change nothing: `schedule`, `explain`, `plan` and `replay`.

Each asks about a snapshot file, or without one about the cluster that a kubeconfig names, as it is now. The
configuration is the one that is named, else the one that is installed there or that the file has, else the defaults.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from click.core import ParameterSource

from restow.commands import inputs
from restow.commands.errors import misfortunes, unwritable, user_mistakes
from restow.commands.options import (
    CONFIG,
    KUBECONFIG,
    NAMESPACE,
    OUTPUT,
    PLAN_OUTPUT,
    named_configuration,
    saved_plan,
    seconds,
    tell_other_configuration,
)
from restow.commands.pod_arguments import no_such_pod, pods_named
from restow.commands.stderr import note

if TYPE_CHECKING:
    from restow.commands.progress import Patience
    from restow.model.inventory import Inventory
    from restow.model.objects import Pod
    from restow.model.resources import Vector
    from restow.planning.plan import Plan
    from restow.running.configuration import Configuration
    from restow.snapshots.offline import OfflineCluster

F = TypeVar("F", bound=Callable[..., Any])

_SHAPE_ADVICE = "name what a pod asks for, such as cpu=16,memory=64Gi"

SNAPSHOT = click.option(
    "--snapshot",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="What `restow snapshot` or `kubectl get nodes,pods,… -A -o json` printed; .gz accepted, - reads stdin. "
    "Without it, the cluster as it is now.",
)


class Subject(msgspec.Struct, frozen=True):
    """What a question is about, as the options say."""

    snapshot: Path | None
    kubeconfig: Path | None
    config: Path | None
    namespace: str

    def looked_at(self, waiting: Patience) -> tuple[OfflineCluster, Configuration]:
        """The cluster and its configuration."""
        if self.snapshot is not None and self.kubeconfig is not None:
            raise click.UsageError("--snapshot and --kubeconfig exclude each other")
        gc.disable()  # what is read stays to the end, so that looking for garbage would only take time
        if self.snapshot is None:
            sections, inventory = self._living(waiting)
        else:
            inventory = _read(self.snapshot, waiting)
            sections = named_configuration(self.config) or inputs.kept_configuration(inventory, self.namespace)
        return _cluster(inventory, waiting), sections

    def here(self) -> str:
        """The namespace that is meant where none is named: as kubectl has it, of a cluster that lives."""
        from restow.adapters.kubernetes import ConfigError, find_config

        try:
            return "default" if self.snapshot is not None else find_config(self.kubeconfig).namespace
        except ConfigError:  # which is told when the cluster is looked at
            return "default"

    def _living(self, waiting: Patience) -> tuple[Configuration, Inventory]:
        from restow.adapters.kubernetes import ConfigError
        from restow.ports import ApiError
        from restow.snapshots.capture import CannotList

        waiting.doing("reading the cluster")
        with misfortunes(CannotList, ApiError):
            try:
                written = named_configuration(self.config)
                sections = written or inputs.living_configuration(self.kubeconfig, self.namespace)
                return sections, inputs.living_inventory(self.kubeconfig, waiting.heed)
            except ConfigError as problem:
                advice = "" if self.kubeconfig else "; or name a file with --snapshot"
                raise click.UsageError(f"{problem}{advice}") from problem


def about_a_cluster(command: F) -> F:
    """The options that a Subject is made of."""
    for option in (NAMESPACE, CONFIG, KUBECONFIG, SNAPSHOT):
        command = option(command)
    return command


def subject(where: dict[str, Any]) -> Subject:
    """Takes the options of `about_a_cluster` out of all that were given."""
    return Subject(*(where.pop(name) for name in Subject.__struct_fields__))


# --- schedule and explain ---------------------------------------------------------------------------------------------


@click.command()
@about_a_cluster
@OUTPUT
def schedule(output: str, **where: Any) -> None:
    """Where the pending pods would go, and why not."""
    from restow.commands import progress
    from restow.output import tables
    from restow.snapshots import offline

    with user_mistakes(), progress.shown() as waiting:
        cluster, sections = subject(where).looked_at(waiting)
        profile = sections.read_scheduler()
        waiting.doing("scheduling")
        result = offline.schedule_offline(cluster, profile, time.time())
    tables.show(result, tables.schedule_table, output)


@click.command()
@about_a_cluster
@OUTPUT
@click.argument("named", metavar="pod NS/NAME", nargs=-1)
def explain(output: str, named: tuple[str, ...], **where: Any) -> None:
    """Why a pod waits or may not move, and where it could go."""
    about = subject(where)  # what is wrong with what was written is told before much is imported
    meant = pods_named(named, "explain", about.here)
    from restow.commands import progress
    from restow.output import tables
    from restow.snapshots.explanation import explain_pod

    with user_mistakes(), progress.shown() as waiting:
        cluster, sections = about.looked_at(waiting)
        waiting.doing("asking every node")
        result = explain_pod(cluster, sections.read_scheduler(), sections, _find_pod(cluster, meant), time.time())
    tables.show(result, tables.explanation_text, output)


def _find_pod(cluster: OfflineCluster, meant: Sequence[tuple[str, str]]) -> Pod:
    """The first of those that may be meant that there is."""
    from restow.model.pods import full_name

    known = {full_name(pod): pod for pod in cluster.pods}
    for one in meant:
        if one in known:
            return known[one]
    raise click.UsageError(no_such_pod(meant, known, "explain"))


# --- plan and replay --------------------------------------------------------------------------------------------------


@click.command()
@about_a_cluster
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
    strategy: str | None,
    shape: str,
    time_limit: str | None,
    output: str,
    save: Path | None,
    report: Path | None,
    **asked: Any,
) -> None:
    """Which pods should move where, and what that brings."""
    limit = seconds(time_limit or ("1h" if asked["work_limit"] else "5s"), "--time-limit")
    wanted_shape = _shape(shape, asked["objective"])
    from restow.commands import progress
    from restow.output import tables
    from restow.planning.strategies import DEFAULT_STRATEGY, InvalidPlan
    from restow.snapshots import offline

    where = subject(asked)
    with user_mistakes(), misfortunes(InvalidPlan), progress.shown() as waiting:
        wanted = offline.PlanOptions(
            strategy=strategy or DEFAULT_STRATEGY,
            shape=wanted_shape,
            time_limit=limit,
            **asked,
        )
        _tell_idle_objective(strategy)
        cluster, sections = where.looked_at(waiting)
        profile = sections.read_scheduler()
        living = where.snapshot is None
        cluster.usage_samples = inputs.measured_use(cluster, sections, wanted.strategy, living=living)
        with waiting.search(wanted.time_limit):
            result = offline.plan_offline(cluster, profile, sections, wanted, waiting.time, waiting.tell)
    if waiting.is_over:
        result = msgspec.structs.replace(result, seconds=round(waiting.passed, 3))
    told = _kept(result, cluster, wanted.shape, save, report)
    tables.show(result, tables.plan_table, output)
    for line in told:
        note(line)


def _kept(result: Plan, cluster: OfflineCluster, shape: Vector, save: Path | None, report: Path | None) -> list[str]:
    """Write the files that were asked for, and say so."""
    from restow.planning.plan import encode_plan

    told = []
    try:
        if save:
            save.write_bytes(encode_plan(result))
            apply = f"; restow apply {save} carries it out" if result.moves or result.places else ""
            told.append(f"the plan is in {save}{apply}")
        if report:
            report.write_text(_page(result, cluster, shape), encoding="utf-8")
            told.append(f"the report is in {report}")
    except OSError as problem:
        raise unwritable(problem) from problem
    return told


@click.command()
@about_a_cluster
@click.option(
    "--plan",
    "written",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan that was saved, or printed as JSON or YAML.",
)
@PLAN_OUTPUT
def replay(written: Path, output: str, **where: Any) -> None:
    """Whether a plan is valid, step by step. Exits with 1 if it is not."""
    from restow.commands import progress
    from restow.output import tables
    from restow.snapshots import offline

    with user_mistakes(), progress.shown() as waiting:
        plan = saved_plan(written)
        cluster, sections = subject(where).looked_at(waiting)
        waiting.doing("replaying")
        result = offline.replay_offline(cluster, sections.read_scheduler(), sections, plan, time.time())
    tables.show(result, tables.replay_table, output)
    if not result.valid:
        tell_other_configuration(plan, sections)
        sys.exit(1)


def _page(plan: Plan, cluster: OfflineCluster, shape: Vector) -> str:
    from restow.model.kinds import NODE
    from restow.model.times import format_time
    from restow.output.html_report import main_resource, page

    nodes, pods = cluster.inventory.of(NODE), cluster.pods
    resource = main_resource(plan, nodes, pods, shape)
    return page(plan, nodes, pods, resource=resource, made=format_time(time.time()))


def _tell_idle_objective(strategy: str | None) -> None:
    """Only `optimal` has a choice of what it is after."""
    given = click.get_current_context().get_parameter_source("objective") is ParameterSource.COMMANDLINE
    if given and strategy not in (None, "optimal"):
        note(f"--objective is for the strategy optimal; {strategy} goes by its own rules")


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


# --- reading ----------------------------------------------------------------------------------------------------------


def _read(path: Path, waiting: Patience) -> Inventory:
    from restow.model.inventory import read_inventory
    from restow.model.kinds import NODE

    waiting.doing(f"reading {path}")
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    inventory = read_inventory(data, "stdin" if str(path) == "-" else str(path))
    if inventory.left_out:
        counted = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.left_out.items()))
        note(f"left out, because nothing here depends on them: {counted}")
    if not inventory.of(NODE):
        note("the snapshot has no nodes; get nodes,pods,… -A")
    return inventory


def _cluster(inventory: Inventory, waiting: Patience) -> OfflineCluster:
    from restow.snapshots.offline import OfflineCluster

    waiting.doing("looking at every pod")
    return OfflineCluster(inventory)


COMMANDS = (plan, replay, schedule, explain)
