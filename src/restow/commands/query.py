"""The commands that answer questions about a cluster and change nothing: `schedule`, `explain`, `plan` and `replay`.

Each reads a snapshot file or, without one, the cluster of a kubeconfig as it is now. The configuration is the file of
`--config`, else the one that is installed in the cluster or contained in the snapshot, else the defaults.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from click.core import ParameterSource

from restow.commands import inputs
from restow.commands.errors import as_failures, as_usage_errors, write_error
from restow.commands.options import (
    CONFIG,
    KUBECONFIG,
    NAMESPACE,
    OUTPUT,
    PLAN_OUTPUT,
    note_other_configuration,
    parse_seconds,
    read_config_option,
    read_saved_plan,
)
from restow.commands.pod_arguments import parse_pod_argument, pod_not_found_message
from restow.commands.stderr import print_note

if TYPE_CHECKING:
    from restow.commands.progress import ProgressLine
    from restow.model.inventory import Inventory
    from restow.model.objects import Pod
    from restow.planning.plan import Plan
    from restow.running.configuration import Configuration
    from restow.snapshots.offline import OfflineCluster, PlanOptions

F = TypeVar("F", bound=Callable[..., Any])

_SHAPE_HINT = "expected the requests of a pod, such as cpu=16,memory=64Gi"

SNAPSHOT = click.option(
    "--snapshot",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="A file written by `restow snapshot` or `kubectl get nodes,pods,… -A -o json` (.gz accepted, - reads stdin). "
    "By default the live cluster is read.",
)


class ClusterSource(msgspec.Struct, frozen=True):
    """Where to read the cluster from, as the options say."""

    snapshot: Path | None
    kubeconfig: Path | None
    config: Path | None
    namespace: str

    def load(self, line: ProgressLine) -> tuple[OfflineCluster, Configuration]:
        """Read the cluster and its configuration."""
        if self.snapshot is not None and self.kubeconfig is not None:
            raise click.UsageError("--snapshot and --kubeconfig cannot be used together")
        gc.disable()  # everything that is read stays in use until the command ends: collecting would only cost time
        if self.snapshot is None:
            configuration, inventory = self._load_live(line)
        else:
            inventory = _read_cluster_file(self.snapshot, line)
            configuration = read_config_option(self.config) or inputs.snapshot_configuration(inventory, self.namespace)
        return _index_cluster(inventory, line), configuration

    def default_namespace(self) -> str:
        """The namespace of a pod that is named without one: that of the kubeconfig's context, `default` for a
        snapshot."""
        from restow.adapters.kubernetes import ConfigError, find_config

        try:
            return "default" if self.snapshot is not None else find_config(self.kubeconfig).namespace
        except ConfigError:  # reported later, by `load`
            return "default"

    def _load_live(self, line: ProgressLine) -> tuple[Configuration, Inventory]:
        from restow.adapters.kubernetes import ConfigError
        from restow.ports import ApiError
        from restow.snapshots.capture import CannotList

        line.begin("reading the cluster")
        with as_failures(CannotList, ApiError):
            try:
                configuration = read_config_option(self.config)
                configuration = configuration or inputs.read_live_configuration(self.kubeconfig, self.namespace)
                return configuration, inputs.read_live_inventory(self.kubeconfig, line.on_objects_read)
            except ConfigError as problem:
                hint = "" if self.kubeconfig else "; to read a file instead, use --snapshot"
                raise click.UsageError(f"{problem}{hint}") from problem


def cluster_options(command: F) -> F:
    """Add the options of a ClusterSource to a command."""
    for option in (NAMESPACE, CONFIG, KUBECONFIG, SNAPSHOT):
        command = option(command)
    return command


def take_cluster_source(options: dict[str, Any]) -> ClusterSource:
    """Remove the options of `cluster_options` from `options` and make a ClusterSource of them."""
    return ClusterSource(*(options.pop(name) for name in ClusterSource.__struct_fields__))


# --- schedule and explain ---------------------------------------------------------------------------------------------


@click.command()
@cluster_options
@OUTPUT
def schedule(output: str, **options: Any) -> None:
    """Show where pending pods would be placed, and why others cannot be."""
    from restow.commands import progress
    from restow.output import tables
    from restow.snapshots import offline

    with as_usage_errors(), progress.progress_line() as line:
        cluster, configuration = take_cluster_source(options).load(line)
        profile = configuration.read_scheduler()
        line.begin("scheduling")
        result = offline.schedule_offline(cluster, profile, time.time())
    tables.print_result(result, tables.schedule_table, output)


@click.command()
@cluster_options
@OUTPUT
@click.argument("arguments", metavar="pod NS/NAME", nargs=-1)
def explain(output: str, arguments: tuple[str, ...], **options: Any) -> None:
    """Explain why a pod is pending or cannot be moved, and where it could go."""
    source = take_cluster_source(options)  # report bad arguments before the slow imports
    candidates = parse_pod_argument(arguments, "explain", source.default_namespace)
    from restow.commands import progress
    from restow.output import tables
    from restow.snapshots.explanation import explain_pod

    with as_usage_errors(), progress.progress_line() as line:
        cluster, configuration = source.load(line)
        line.begin("checking all nodes")
        result = explain_pod(
            cluster, configuration.read_scheduler(), configuration, _find_pod(cluster, candidates), time.time()
        )
    tables.print_result(result, tables.explanation_text, output)


def _find_pod(cluster: OfflineCluster, candidates: Sequence[tuple[str, str]]) -> Pod:
    """The first of the candidates that exists."""
    from restow.model.pods import namespaced_name

    known = {namespaced_name(pod): pod for pod in cluster.pods}
    for name in candidates:
        if name in known:
            return known[name]
    raise click.UsageError(pod_not_found_message(candidates, known, "explain"))


# --- plan and replay --------------------------------------------------------------------------------------------------


@click.command()
@cluster_options
@click.option(
    "--strategy",
    type=click.Choice(["optimal", "defragmentation", "balance", "load-aware"]),
    help="How moves are chosen. [default: optimal]",
)
@click.option(
    "--objective",
    type=click.Choice(["free-nodes", "slots", "pending"]),
    default="free-nodes",
    show_default=True,
    help="What strategy `optimal` maximises.",
)
@click.option(
    "--shape",
    default="",
    metavar="cpu=16,memory=64Gi",
    help="Requests of the pod that objective `slots` makes room for.",
)
@click.option("--max-moves", type=click.IntRange(0), default=50, show_default=True, help="Maximum number of moves.")
@click.option("--time-limit", help="Time limit of `optimal`. [default: 5s, with --work-limit 1h]")
@click.option(
    "--work-limit",
    type=click.IntRange(1),
    help="Limit of `optimal` in search steps, for the same plan on every machine.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed; the same seed gives the same plan.")
@PLAN_OUTPUT
@click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), help="Also save the plan, for replay and apply."
)
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Also write an HTML report.")
def plan(
    strategy: str | None,
    shape: str,
    time_limit: str | None,
    output: str,
    save: Path | None,
    report: Path | None,
    **options: Any,
) -> None:
    """Plan which pods to move where, and show what that gains."""
    limit = parse_seconds(time_limit or ("1h" if options["work_limit"] else "5s"), "--time-limit")
    wanted_shape = _shape(shape, options["objective"])
    from restow.commands import progress
    from restow.output import tables
    from restow.planning.strategies import DEFAULT_STRATEGY, InvalidPlan
    from restow.snapshots import offline

    source = take_cluster_source(options)
    with as_usage_errors(), as_failures(InvalidPlan), progress.progress_line() as line:
        plan_options = offline.PlanOptions(
            strategy=strategy or DEFAULT_STRATEGY,
            shape=wanted_shape,
            time_limit=limit,
            **options,
        )
        _note_unused_objective(strategy)
        cluster, configuration = source.load(line)
        profile = configuration.read_scheduler()
        is_live = source.snapshot is None
        cluster.usage_samples = inputs.usage_samples(cluster, configuration, plan_options.strategy, is_live=is_live)
        with line.search(plan_options.time_limit):
            result = offline.plan_offline(cluster, profile, configuration, plan_options, line.time, line.update)
    if line.is_cut_short:
        result = msgspec.structs.replace(result, seconds=round(line.elapsed, 3))
    messages = _write_files(result, cluster, plan_options, save, report)
    tables.print_result(result, partial(tables.plan_table, max_moves=plan_options.max_moves), output)
    for message in messages:
        print_note(message)


def _write_files(
    result: Plan, cluster: OfflineCluster, options: PlanOptions, save: Path | None, report: Path | None
) -> list[str]:
    """Write the files of --save and --report; returns a message about each."""
    from restow.planning.plan import encode_plan

    messages = []
    try:
        if save:
            save.write_bytes(encode_plan(result))
            hint = f"; to carry it out: restow apply {save}" if result.moves or result.places else ""
            messages.append(f"plan saved to {save}{hint}")
        if report:
            report.write_text(_render_report(result, cluster, options), encoding="utf-8")
            messages.append(f"report written to {report}")
    except OSError as problem:
        raise write_error(problem) from problem
    return messages


@click.command()
@cluster_options
@click.option(
    "--plan",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan that was saved with --save, or printed as JSON or YAML.",
)
@PLAN_OUTPUT
def replay(path: Path, output: str, **options: Any) -> None:
    """Check a plan step by step. Exits with 1 if it is not valid."""
    from restow.commands import progress
    from restow.output import tables
    from restow.snapshots import offline

    with as_usage_errors(), progress.progress_line() as line:
        plan = read_saved_plan(path)
        cluster, configuration = take_cluster_source(options).load(line)
        line.begin("replaying")
        result = offline.replay_offline(cluster, configuration.read_scheduler(), configuration, plan, time.time())
    tables.print_result(result, tables.replay_table, output)
    if not result.valid:
        note_other_configuration(plan, configuration)
        sys.exit(1)


def _render_report(plan: Plan, cluster: OfflineCluster, options: PlanOptions) -> str:
    from restow.model.kinds import NODE
    from restow.model.times import format_time
    from restow.output.html_report import main_resource, render_page

    nodes, pods = cluster.inventory.of(NODE), cluster.pods
    resource = main_resource(plan, nodes, pods, options.shape)
    made = format_time(time.time())
    return render_page(plan, nodes, pods, resource=resource, made=made, max_moves=options.max_moves)


def _note_unused_objective(strategy: str | None) -> None:
    """Tell the user that only strategy `optimal` has objectives."""
    is_given = click.get_current_context().get_parameter_source("objective") is ParameterSource.COMMANDLINE
    if is_given and strategy not in (None, "optimal"):
        print_note(f"--objective has no effect with --strategy {strategy}; it is for strategy optimal")


def _shape(text: str, objective: str) -> dict[str, int]:
    """Parse --shape, such as cpu=16,memory=64Gi, into base units."""
    from restow.model.quantity import QuantityError, parse_amount

    shape: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, separator, quantity = part.partition("=")
        if not separator:
            raise click.BadParameter(f"{part}: {_SHAPE_HINT}", param_hint="'--shape'")
        try:
            shape[name.strip()] = parse_amount(name.strip(), quantity.strip())
        except QuantityError as problem:
            raise click.BadParameter(f"{part}: {problem}", param_hint="'--shape'") from problem
    if any(not name or number <= 0 for name, number in shape.items()) or (objective == "slots" and not shape):
        raise click.BadParameter(_SHAPE_HINT, param_hint="'--shape'")
    return shape


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_cluster_file(path: Path, line: ProgressLine) -> Inventory:
    from restow.model.inventory import read_inventory
    from restow.model.kinds import NODE

    line.begin(f"reading {path}")
    data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    inventory = read_inventory(data, "stdin" if str(path) == "-" else str(path))
    if inventory.left_out:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.left_out.items()))
        print_note(f"objects of kinds that Restow does not use were ignored: {counts}")
    if not inventory.of(NODE):
        print_note("the snapshot has no nodes; create it with kubectl get nodes,pods,… -A")
    return inventory


def _index_cluster(inventory: Inventory, line: ProgressLine) -> OfflineCluster:
    from restow.snapshots.offline import OfflineCluster

    line.begin("indexing pods")
    return OfflineCluster(inventory)


COMMANDS = (plan, replay, schedule, explain)
