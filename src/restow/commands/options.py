"""Options that several commands have, and what the file of `--config` says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from restow.commands.notes import note
from restow.defaults import HOME

if TYPE_CHECKING:
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
OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
PLAN_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)


def seconds(text: str, option: str) -> float:
    """What an option says that is a time span, such as 90s, 5m or 1h30m."""
    from restow.model.times import TimeError, parse_duration

    try:
        span = parse_duration(text)
    except TimeError as problem:
        raise click.BadParameter(str(problem), param_hint=f"'{option}'") from problem
    if span < 0:
        raise click.BadParameter(f"{text} is negative", param_hint=f"'{option}'")
    return span


def named_configuration(config: Path | None) -> Configuration | None:
    """What the file of --config says. Raises WireError and OSError."""
    from restow.running.configuration import read_configuration

    return read_configuration(config.read_bytes(), str(config)) if config is not None else None


def saved_plan(written: Path) -> Plan:
    """A plan that was saved, or printed. Raises WireError and OSError; of a file that is about something else it says
    what."""
    from restow.model.wire import WireError, read_documents
    from restow.planning.plan import read_plan

    data = written.read_bytes()
    try:
        return read_plan(data, str(written))
    except WireError:
        kinds = dict.fromkeys(str(one["kind"]) for one in read_documents(data, str(written)) if "kind" in one)
        if not kinds:
            raise
    raise click.UsageError(f"{written} has a {', a '.join(kinds)}, not a plan; restow plan --save F writes one")


def tell_other_configuration(plan: Plan, configuration: Configuration) -> None:
    """Why a plan does not hold, where not the cluster is what differs."""
    from restow.planning.plan import fingerprint

    if plan.configuration and plan.configuration != fingerprint(configuration):
        note("the plan was made with another configuration; name that one with --config")
