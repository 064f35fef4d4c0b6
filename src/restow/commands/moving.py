"""The commands that move pods in a cluster that lives: `move`, `apply` and `deschedule`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import click
import msgspec

from restow.commands.mistakes import CouldNot, misfortunes, user_mistakes
from restow.commands.naming import no_such_pod, pods_named
from restow.commands.notes import end_line, note
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

if TYPE_CHECKING:
    from restow.control.descheduler import Changed, Progress, Run
    from restow.planning.plan import Plan

# --- move -------------------------------------------------------------------------------------------------------------


@click.command()
@KUBECONFIG
@click.option("--to", "target", metavar="NODE", help="Where to; by default the scheduler decides.")
@click.option("--ttl", metavar="5m", help="How long it may take once it has begun; by default as configured.")
@OUTPUT
@click.argument("named", metavar="pod NS/NAME", nargs=-1)
def move(kubeconfig: Path | None, target: str | None, ttl: str | None, output: str, named: tuple[str, ...]) -> None:
    """Move one pod to a seat that is held for it, and tell each step. Ctrl-C lets the move go on."""
    from restow.adapters.kubernetes import ConfigError, find_config

    if ttl is not None:
        seconds(ttl, "--ttl")
    with user_mistakes(ConfigError):  # before the rest is imported, which takes longer than to see what is wrong
        meant = pods_named(named, "move", lambda: find_config(kubeconfig).namespace)
    from restow.ports import ApiError, Invalid
    from restow.running import acting, one_move
    from restow.running.living import ask

    errand = one_move.Errand(meant, target, ttl)
    begun = ""

    def tell(job: str, told: str) -> None:
        nonlocal begun
        begun = job
        note(f"{job}: {told}")

    try:
        could_not = misfortunes(acting.NotInstalled, one_move.JobGone, one_move.OutOfSight, ApiError)
        with could_not, user_mistakes(ConfigError, one_move.NoSuchNode, Invalid):
            done = asyncio.run(ask(kubeconfig, lambda client: one_move.move(client, Random(), errand, tell)))
    except one_move.NoSuchPod as problem:
        raise click.UsageError(no_such_pod(meant, problem.known, "move")) from problem
    except KeyboardInterrupt:
        end_line()
        if begun:
            note(one_move.goes_on(begun))
        raise click.Abort from None
    if output == "json":
        click.echo(msgspec.json.encode(done))
    if not done.succeeded:
        raise CouldNot(f"{done.job}: {done.message}" if done.job else done.message)
    if output != "json":
        click.echo(done.message)


# --- deschedule -------------------------------------------------------------------------------------------------------


@click.command()
@KUBECONFIG
@CONFIG
@NAMESPACE
@click.option("--now", is_flag=True, help="Run it once, at once. Required: nothing is evicted by accident.")
@click.option("--profile", help="Which of the configuration; the first by default.")
@click.option("--dry-run", is_flag=True, help="Only say what would move.")
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
        note(f"plugin {name} failed: {problem}")
    for removal in done.outcome.removals:
        meta = removal.pod.metadata
        note(f"removes {meta.namespace}/{meta.name}: {removal.reason}")
    if done.jobs:
        jobs = number_of(len(done.jobs), "job")
        note(f"{jobs} of plan {done.plan}; follow them with kubectl get pmj -w")
    elif not dry_run and (done.outcome.plan.moves or done.outcome.removals):
        note("nothing is begun: descheduler.dryRun is set in the configuration")


# --- apply ------------------------------------------------------------------------------------------------------------


@click.command()
@KUBECONFIG
@CONFIG
@NAMESPACE
@click.option("--strict", is_flag=True, help="Stop at any change of the cluster instead of repairing the plan.")
@OUTPUT
@click.argument("written", metavar="F", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def apply(
    kubeconfig: Path | None, config: Path | None, namespace: str, strict: bool, output: str, written: Path
) -> None:
    """Carry a saved plan out. Ctrl-C lets the moves that have begun go on; the same command continues."""
    from restow.adapters.kubernetes import ConfigError
    from restow.control.descheduler import Changed, InTheWay
    from restow.ports import ApiError
    from restow.running import acting
    from restow.running.reaching import CannotRun
    from restow.showing import progress

    with user_mistakes():
        plan = saved_plan(written)

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
        end_line()
        note(f"moves that have begun go on; restow apply {written} continues with the rest")
        raise click.Abort from None
    _conclude(plan, done, as_json=output == "json")


def _tell_differences(changed: Changed) -> None:
    """All of them, where the one line of the error has not room for them."""
    for one in changed.rest:
        note(one)


def _conclude(plan: Plan, done: Progress, *, as_json: bool) -> None:
    """How it went; a plan that did not go as planned is told, and exits with 1."""
    from restow.planning.claims import CLAIM_LABEL
    from restow.showing.progress import carried

    told = f"plan {done.plan}: {done.succeeded} of {len(plan.moves)} moves done"
    left_out = sum(move.order not in done.jobs for move in plan.moves)
    if left_out:
        told += f", {left_out} left out"
    if plan.places:
        told += f", {done.taken} of {len(plan.places)} places taken"
    if as_json:
        click.echo(msgspec.json.encode(carried(plan, done)))
    if done.failed:
        raise CouldNot(f"{told}, {done.failed} failed; kubectl get pmj says why")
    if done.taken < len(plan.places):
        raise CouldNot(f"{told}; kubectl get resv -A -l {CLAIM_LABEL}={done.plan} says what the others wait for")
    if not as_json:
        click.echo(told)


COMMANDS = (move, apply, deschedule)
