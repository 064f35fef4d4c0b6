"""The commands that move pods in a cluster that lives: `deschedule` and `apply`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from restow.commands.mistakes import CouldNot, misfortunes, user_mistakes
from restow.defaults import HOME

if TYPE_CHECKING:
    from restow.control.descheduler import Changed, Progress, Run
    from restow.planning.plan import Plan
    from restow.running.configuration import Configuration

KUBECONFIG = click.option(
    "--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="As kubectl's; in a pod, its own."
)
CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file; by default what is installed in the cluster.",
)
NAMESPACE = click.option("--namespace", default=HOME, show_default=True, help="Where Restow is installed.")


def named_configuration(config: Path | None) -> Configuration | None:
    """What the file of --config says. Raises WireError and OSError."""
    from restow.running.configuration import read_configuration

    return read_configuration(config.read_bytes(), str(config)) if config is not None else None


# --- deschedule -------------------------------------------------------------------------------------------------------


@click.command()
@KUBECONFIG
@CONFIG
@NAMESPACE
@click.option("--now", is_flag=True, help="Run it once, at once. Required: nothing is evicted by accident.")
@click.option("--profile", help="Which of the configuration; the first by default.")
@click.option("--dry-run", is_flag=True, help="Only say what would move.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def deschedule(
    kubeconfig: Path | None,
    config: Path | None,
    namespace: str,
    now: bool,
    profile: str | None,
    dry_run: bool,
    output: str,
) -> None:
    """Run a profile of the descheduler: plan, and create a job for each move."""
    from restow.adapters.kubernetes import ConfigError
    from restow.commands import patience
    from restow.control.descheduler import RunRefused
    from restow.model.words import number_of
    from restow.ports import ApiError
    from restow.running import acting
    from restow.running.reaching import CannotRun
    from restow.showing import printing

    if not now:
        raise click.UsageError("say when: --now; profiles with an interval or a cron expression run by themselves")

    async def work() -> Run:
        async with acting.bearing(kubeconfig, named_configuration(config), namespace) as at:
            return await acting.deschedule(at, namespace, profile, dry_run=dry_run)

    with (
        user_mistakes(ConfigError, LookupError),
        misfortunes(RunRefused, acting.NotInstalled, CannotRun, ApiError),
        patience.shown() as waiting,
    ):
        waiting.doing("reading the cluster, and planning")
        done = asyncio.run(work())
    printing.show(done.outcome.plan, printing.plan_table, output)
    for name, problem in done.outcome.failures.items():
        click.echo(f"restow: plugin {name} failed: {problem}", err=True)
    for removal in done.outcome.removals:
        meta = removal.pod.metadata
        click.echo(f"restow: removes {meta.namespace}/{meta.name}: {removal.reason}", err=True)
    if done.jobs:
        jobs = number_of(len(done.jobs), "job")
        click.echo(f"restow: {jobs} of plan {done.plan}; follow them with kubectl get pmj -w", err=True)
    elif not dry_run and (done.outcome.plan.moves or done.outcome.removals):
        click.echo("restow: nothing is begun: descheduler.dryRun is set in the configuration", err=True)


# --- apply ------------------------------------------------------------------------------------------------------------


@click.command()
@KUBECONFIG
@CONFIG
@NAMESPACE
@click.option("--strict", is_flag=True, help="Stop at any change of the cluster instead of repairing the plan.")
@click.argument("written", metavar="F", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def apply(kubeconfig: Path | None, config: Path | None, namespace: str, strict: bool, written: Path) -> None:
    """Carry a saved plan out. Ctrl-C lets the moves that have begun go on; the same command continues."""
    from restow.adapters.kubernetes import ConfigError
    from restow.control.descheduler import Changed, InTheWay
    from restow.planning.plan import read_plan
    from restow.ports import ApiError
    from restow.running import acting
    from restow.running.reaching import CannotRun
    from restow.showing import progress

    with user_mistakes():
        plan = read_plan(written.read_bytes(), str(written))

    async def work(shown: progress.Shown) -> Progress:
        async with acting.bearing(kubeconfig, named_configuration(config), namespace) as at:
            try:
                return await acting.carry_out(at, namespace, plan, shown.update, strict=strict)
            except Changed:
                tell_other_configuration(plan, at.configuration)
                raise

    try:
        could_not = misfortunes(Changed, InTheWay, acting.NotInstalled, CannotRun, ApiError)
        with user_mistakes(ConfigError), could_not, progress.shown(plan) as shown:
            done = asyncio.run(work(shown))
    except CouldNot as problem:
        if isinstance(problem.__cause__, Changed):
            _tell_differences(problem.__cause__)
        raise
    except KeyboardInterrupt:
        click.echo(f"restow: moves that have begun go on; restow apply {written} continues with the rest", err=True)
        raise
    _conclude(plan, done)


def tell_other_configuration(plan: Plan, configuration: Configuration) -> None:
    """Why a plan does not hold, where not the cluster is what differs."""
    from restow.planning.plan import fingerprint

    if plan.configuration and plan.configuration != fingerprint(configuration):
        click.echo("restow: the plan was made with another configuration; name that one with --config", err=True)


def _tell_differences(changed: Changed) -> None:
    """All of them, where the one line of the error has not room for them."""
    for one in changed.rest:
        click.echo(f"restow: {one}", err=True)


def _conclude(plan: Plan, done: Progress) -> None:
    """How it went; a plan that did not go as planned is told, and exits with 1."""
    from restow.planning.claims import CLAIM_LABEL

    told = f"plan {done.plan}: {done.succeeded} of {len(plan.moves)} moves done"
    left_out = sum(move.order not in done.jobs for move in plan.moves)
    if left_out:
        told += f", {left_out} left out"
    if plan.places:
        told += f", {done.taken} of {len(plan.places)} places taken"
    if done.failed:
        raise CouldNot(f"{told}, {done.failed} failed; kubectl get pmj says why")
    if done.taken < len(plan.places):
        raise CouldNot(f"{told}; kubectl get resv -A -l {CLAIM_LABEL}={done.plan} says what the others wait for")
    click.echo(told)
