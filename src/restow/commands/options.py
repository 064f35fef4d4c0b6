"""Options that several commands share, and the files that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from restow.commands.stderr import print_note
from restow.defaults import HOME

if TYPE_CHECKING:
    from restow.planning.plan import Plan
    from restow.running.configuration import Configuration

KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Path of the kubeconfig; by default as kubectl finds it, in a pod the service account.",
)
CONFIG = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file; by default the configuration installed in the cluster.",
)
NAMESPACE = click.option("--namespace", default=HOME, show_default=True, help="Namespace in which Restow is installed.")
OUTPUT = click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
PLAN_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)


def parse_seconds(text: str, option: str) -> float:
    """Parse the duration of an option, such as 90s, 5m or 1h30m."""
    from restow.model.times import TimeError, parse_duration

    try:
        duration = parse_duration(text)
    except TimeError as problem:
        raise click.BadParameter(str(problem), param_hint=f"'{option}'") from problem
    if duration < 0:
        raise click.BadParameter(f"{text} is negative", param_hint=f"'{option}'")
    return duration


def read_config_option(config: Path | None) -> Configuration | None:
    """Read the file of --config; None without that option. Raises WireError and OSError."""
    from restow.running.configuration import read_configuration

    return read_configuration(config.read_bytes(), str(config)) if config is not None else None


def read_saved_plan(path: Path) -> Plan:
    """Read a plan that was saved or printed. Raises WireError and OSError, and a UsageError that names the kinds if the
    file has Kubernetes objects instead."""
    from restow.model.wire import WireError, read_documents
    from restow.planning.plan import read_plan

    data = path.read_bytes()
    try:
        return read_plan(data, str(path))
    except WireError:
        documents = read_documents(data, str(path))
        kinds = dict.fromkeys(str(document["kind"]) for document in documents if "kind" in document)
        if not kinds:
            raise
    raise click.UsageError(f"{path} contains {', '.join(kinds)}, not a plan; create one with restow plan --save F")


def note_other_configuration(plan: Plan, configuration: Configuration) -> None:
    """If the plan was made with another configuration, say so: that may be why it is not valid."""
    from restow.planning.plan import configuration_fingerprint

    if plan.configuration and plan.configuration != configuration_fingerprint(configuration):
        print_note("the plan was made with another configuration; use --config to name that one")
