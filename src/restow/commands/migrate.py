"""The commands that move pods in a live cluster: `move`, `apply` and `deschedule`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click
import msgspec

from restow.commands.errors import CommandFailed, as_failures, as_usage_errors
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
from restow.commands.stderr import end_interrupted_line, print_note

if TYPE_CHECKING:
    from restow.control.descheduler import ApplyProgress, DeschedulerRun
    from restow.planning.plan import Plan

# --- move -------------------------------------------------------------------------------------------------------------


@click.command()
@KUBECONFIG
@click.option("--to", "target", metavar="NODE", help="Target node; by default the scheduler chooses.")
@click.option("--ttl", metavar="5m", help="Timeout of the move; by default as configured.")
@OUTPUT
@click.argument("arguments", metavar="pod NS/NAME", nargs=-1)
def move(kubeconfig: Path | None, target: str | None, ttl: str | None, output: str, arguments: tuple[str, ...]) -> None:
    """Move one pod into a seat that is reserved for it. After Ctrl-C the move continues."""
    from restow.adapters.kubernetes import ConfigError, find_config

    # Report bad arguments before the slow imports.
    if ttl is not None:
        parse_seconds(ttl, "--ttl")
    with as_usage_errors(ConfigError):
        candidates = parse_pod_argument(arguments, "move", lambda: find_config(kubeconfig).namespace)
    from restow.ports import ApiError, Invalid
    from restow.running import move_pod, one_shot_run
    from restow.running.one_shot_client import with_client

    request = move_pod.MoveRequest(candidates, target, ttl)
    job_name = ""

    def report(job: str, message: str) -> None:
        nonlocal job_name
        job_name = job
        print_note(f"{job}: {message}")

    try:
        failures = as_failures(one_shot_run.NotInstalled, move_pod.JobDeleted, move_pod.JobNotReadable, ApiError)
        with failures, as_usage_errors(ConfigError, move_pod.NoSuchNode, Invalid):
            result = asyncio.run(
                with_client(kubeconfig, lambda client: move_pod.move_pod(client, Random(), request, report))
            )
    except move_pod.NoSuchPod as problem:
        raise click.UsageError(pod_not_found_message(candidates, problem.known, "move")) from problem
    except KeyboardInterrupt:
        end_interrupted_line()
        if job_name:
            print_note(move_pod.move_continues_hint(job_name))
        raise click.Abort from None
    if output == "json":
        click.echo(msgspec.json.encode(result))
    if not result.succeeded:
        raise CommandFailed(f"{result.job}: {result.message}" if result.job else result.message)
    if output != "json":
        click.echo(result.message)


# --- deschedule -------------------------------------------------------------------------------------------------------


@click.command()
@KUBECONFIG
@CONFIG
@NAMESPACE
@click.option("--now", is_flag=True, help="Run now. Required, so that nothing is evicted by accident.")
@click.option("--profile", help="Name of the profile; by default the first one.")
@click.option("--dry-run", is_flag=True, help="Only print the plan.")
@PLAN_OUTPUT
def deschedule(
    kubeconfig: Path | None,
    config: Path | None,
    namespace: str,
    now: bool,
    profile: str | None,
    dry_run: bool,
    output: str,
) -> None:
    """Run a profile of the descheduler once.

    Makes a plan and creates a job for each move."""
    from restow.adapters.kubernetes import ConfigError
    from restow.commands import progress
    from restow.control.descheduler import RunRefused
    from restow.model.counted_nouns import counted_noun
    from restow.output import tables
    from restow.ports import ApiError
    from restow.running import one_shot_run
    from restow.running.preflight import CannotRun

    if not now:
        raise click.UsageError("--now is required; profiles with an interval or a cron expression run by themselves")

    async def work() -> DeschedulerRun:
        async with one_shot_run.open_session(kubeconfig, read_config_option(config), namespace) as session:
            return await one_shot_run.run_profile_now(session, namespace, profile, dry_run=dry_run)

    with (
        as_usage_errors(ConfigError, LookupError),
        as_failures(RunRefused, one_shot_run.NotInstalled, CannotRun, ApiError),
        progress.progress_line() as line,
    ):
        line.begin("reading the cluster and planning")
        result = asyncio.run(work())
    outcome = result.outcome
    tables.print_result(outcome.plan, tables.plan_table, output)
    for name, problem in outcome.failures.items():
        print_note(f"plugin {name} failed: {problem}")
    for removal in outcome.removals:
        meta = removal.pod.metadata
        print_note(f"{meta.namespace}/{meta.name} is to be evicted: {removal.reason}")
    if result.jobs:
        jobs = counted_noun(len(result.jobs), "job")
        print_note(f"{jobs} created for plan {result.plan}; follow with kubectl get pmj -w")
    elif not dry_run and (outcome.plan.moves or outcome.removals):
        print_note("no jobs created: descheduler.dryRun is set in the configuration")


# --- apply ------------------------------------------------------------------------------------------------------------


@click.command()
@KUBECONFIG
@CONFIG
@NAMESPACE
@click.option("--strict", is_flag=True, help="Fail if the cluster has changed, instead of repairing the plan.")
@OUTPUT
@click.argument("path", metavar="F", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def apply(kubeconfig: Path | None, config: Path | None, namespace: str, strict: bool, output: str, path: Path) -> None:
    """Carry out a saved plan. After Ctrl-C started moves continue; run the command again for the rest."""
    from restow.adapters.kubernetes import ConfigError
    from restow.control.descheduler import AnotherPlanActive, ClusterChanged
    from restow.output import apply_progress
    from restow.ports import ApiError
    from restow.running import one_shot_run
    from restow.running.preflight import CannotRun

    with as_usage_errors():
        plan = read_saved_plan(path)

    async def work(display: apply_progress.ProgressDisplay) -> ApplyProgress:
        async with one_shot_run.open_session(kubeconfig, read_config_option(config), namespace) as session:
            try:
                return await one_shot_run.apply_plan(session, namespace, plan, display.update, strict=strict)
            except ClusterChanged:
                note_other_configuration(plan, session.configuration)
                raise

    try:
        failures = as_failures(ClusterChanged, AnotherPlanActive, one_shot_run.NotInstalled, CannotRun, ApiError)
        with as_usage_errors(ConfigError), failures, apply_progress.progress_display(plan) as display:
            progress = asyncio.run(work(display))
    except CommandFailed as problem:
        if isinstance(problem.__cause__, ClusterChanged):
            for defect in problem.__cause__.more_defects:  # the one line of the error has only the first
                print_note(defect)
        raise
    except KeyboardInterrupt:
        end_interrupted_line()
        print_note(f"started moves continue; run restow apply {path} again for the rest")
        raise click.Abort from None
    _print_summary(plan, progress, as_json=output == "json")


def _print_summary(plan: Plan, progress: ApplyProgress, *, as_json: bool) -> None:
    """Print the end state. Raises CommandFailed if moves failed or pending pods did not get their places."""
    from restow.output.apply_progress import apply_result
    from restow.planning.place_reservations import PLACE_RESERVATION_LABEL

    summary = f"plan {progress.plan}: {progress.succeeded} of {len(plan.moves)} moves done"
    skipped = sum(move.order not in progress.jobs for move in plan.moves)
    if skipped:
        summary += f", {skipped} skipped"
    if plan.places:
        summary += f", {progress.filled_places} of {len(plan.places)} places taken"
    if as_json:
        click.echo(msgspec.json.encode(apply_result(plan, progress)))
    if progress.failed:
        raise CommandFailed(f"{summary}, {progress.failed} failed; see kubectl get pmj")
    if progress.filled_places < len(plan.places):
        raise CommandFailed(f"{summary}; see kubectl get resv -A -l {PLACE_RESERVATION_LABEL}={progress.plan}")
    if not as_json:
        click.echo(summary)


COMMANDS = (move, apply, deschedule)
