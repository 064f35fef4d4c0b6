"""The commands that operate Restow on a cluster: `run`, `snapshot`, `install`, `pause` and `resume`."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from restow import __version__
from restow.commands.errors import as_failures, as_usage_errors, write_error
from restow.commands.inputs import ReadProgress
from restow.commands.options import KUBECONFIG, NAMESPACE, OUTPUT, read_config_option
from restow.commands.stderr import print_note
from restow.defaults import HOME, PORT

if TYPE_CHECKING:
    from restow.client.verbs import Client
    from restow.model.objects import Document
    from restow.running.install_manifest import ForeignInstallation

log = logging.getLogger(__name__)


def announce_kubeconfig(kubeconfig: Path, url: str) -> None:
    """Print the path of the kubeconfig as the first line on stdout, for scripts, and how to use it on stderr."""
    try:
        click.echo(str(kubeconfig))  # which also flushes
    except OSError as problem:
        raise write_error(problem) from problem
    print_note(f"serving {url}; in another terminal: export KUBECONFIG={kubeconfig}; Ctrl-C stops")


@click.command()
@KUBECONFIG
@click.option("--embedded", is_flag=True, help="Run against an embedded cluster, which ends with this command.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Configuration file.")
@click.option("--components", help="Comma-separated names of components. [default: all]")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Use a Lease for each component. [default: yes, with --embedded no]",
)
@click.option(
    "--lease-duration",
    default="15s",
    show_default=True,
    help="Time without renewal after which another process may take over.",
)
@click.option(
    "--namespace", help="Namespace of the Leases and the stop switch. [default: restow-system, in a pod its own]"
)
@click.option(
    "--address", help="Address of /healthz, /readyz and /metrics. [default: loopback, in a pod all addresses]"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port of these; 0 chooses a free one.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(kubeconfig: Path | None, embedded: bool, components: str | None, log_format: str, **flags_given: Any) -> None:
    """Run Restow's components against a cluster until Ctrl-C."""
    from restow import app
    from restow.adapters import event_loop
    from restow.adapters.kubernetes import ConfigError
    from restow.running.component_runner import ComponentFailed
    from restow.running.embedded_cluster import UnexpectedStop
    from restow.running.logs import log_to_stderr
    from restow.running.preflight import CannotRun

    if embedded and kubeconfig is not None:
        raise click.UsageError("--kubeconfig and --embedded cannot be used together")
    log_to_stderr(logging.INFO, as_json=log_format == "json")
    with as_usage_errors(ConfigError), as_failures(CannotRun, UnexpectedStop, ComponentFailed):
        flags = app.RunFlags(embedded=embedded, components=_parse_components(components), **flags_given)
        options = app.run_options(flags)
        if embedded:
            work = app.run_embedded(options, announce=announce_kubeconfig)
        else:
            work = app.run_against(kubeconfig, options)
        event_loop.run_event_loop(
            app.until_stopped(work, lambda signal: log.info("stopping", extra={"signal": signal}))
        )


def _parse_components(text: str | None) -> tuple[str, ...]:
    """The comma-separated names without repetitions; all components without the option."""
    from restow.running.components import COMPONENTS

    if text is None:
        return tuple(COMPONENTS)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    unknown = [name for name in names if name not in COMPONENTS]
    if unknown:
        message = f"unknown component {', '.join(map(repr, unknown))}; known are {', '.join(COMPONENTS)}"
        raise click.BadParameter(message, param_hint="'--components'")
    return names


@click.command()
@KUBECONFIG
@NAMESPACE
@click.option("--anonymise", is_flag=True, help="Keep only what Restow reads, and replace names by aliases.")
def snapshot(kubeconfig: Path | None, namespace: str, anonymise: bool) -> None:
    """Print the cluster as a snapshot file, for --snapshot of the commands above."""
    from restow.adapters.kubernetes import ConfigError
    from restow.ports import ApiError
    from restow.running.one_shot_client import with_client
    from restow.snapshots.capture import CannotList

    def print_snapshot(client: Client) -> Awaitable[None]:
        return _print_anonymised(client) if anonymise else _print_complete(client, namespace)

    with as_usage_errors(ConfigError), as_failures(CannotList, ApiError):
        asyncio.run(with_client(kubeconfig, print_snapshot))


async def _print_complete(client: Client, namespace: str) -> None:
    """Print every object and the installed configuration, so that commands give the same answers from the file."""
    from restow.running.existing_installation import installed_configuration_documents
    from restow.snapshots.capture import capture_documents

    file = _SnapshotFile()
    async for document in capture_documents(client, ReadProgress(), print_note):
        file.write([document])
    file.write(await installed_configuration_documents(client, namespace))
    file.close()


async def _print_anonymised(client: Client) -> None:
    from restow.snapshots.anonymiser import Anonymiser
    from restow.snapshots.capture import capture_inventory

    file = _SnapshotFile()
    file.write(Anonymiser(await capture_inventory(client, ReadProgress(), print_note)).documents())
    file.close()


class _SnapshotFile:
    """A v1 List on stdout, written object by object. If the command fails half-way, the output is not valid JSON, so
    that it cannot be mistaken for a complete snapshot."""

    def __init__(self) -> None:
        self._out = sys.stdout.buffer
        self._separator = b'{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[\n'

    def write(self, documents: Iterable[Document]) -> None:
        for document in documents:
            self._print(self._separator + msgspec.json.encode(document))
            self._separator = b",\n"

    def close(self) -> None:
        self._print((b"" if self._separator == b",\n" else self._separator) + b"\n]}\n")

    def _print(self, data: bytes) -> None:
        try:
            self._out.write(data)
        except OSError as problem:
            raise write_error(problem) from problem


@click.command()
@KUBECONFIG
@click.option("--namespace", default=HOME, show_default=True, help="Namespace to install into; created if missing.")
@click.option("--image", default=f"restow:{__version__}", show_default=True, help="Image of the Deployment.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Configuration to install; by default the installed one is kept, else the defaults are used.",
)
def install(kubeconfig: Path | None, namespace: str, image: str, config: Path | None) -> None:
    """Print the YAML that installs Restow, for kubectl apply. The cluster is read, not changed."""
    from restow.model.names import dns_label_problems
    from restow.running.existing_installation import inspect_before_install
    from restow.running.install_manifest import CONFIGURATION, install_documents, to_yaml

    if problems := dns_label_problems(namespace):
        raise click.BadParameter(f"{namespace!r} {'; '.join(problems)}", param_hint="'--namespace'")
    if not image:
        raise click.BadParameter("must not be empty", param_hint="'--image'")
    with as_usage_errors():
        read_config_option(config)  # report a bad configuration before the cluster is read
        configuration = config.read_text() if config else None
    existing = asyncio.run(inspect_before_install(kubeconfig, namespace))
    without: tuple[str, ...] = ()
    if isinstance(existing, str):
        print_note(f"the cluster was not checked for conflicting installations: {existing}")
    else:
        without = existing.foreign.definitions
        _note_conflicts(existing.foreign)
        if configuration is None and existing.configuration is not None:
            configuration = existing.configuration
            print_note(f"keeping the configuration that is installed in {namespace}; --config replaces it")
    with as_usage_errors():
        documents = install_documents(
            namespace=namespace,
            image=image,
            without=without,
            configuration=CONFIGURATION if configuration is None else configuration,
        )
    sys.stdout.write(to_yaml(documents))


def _note_conflicts(foreign: ForeignInstallation) -> None:
    for name in foreign.definitions:
        print_note(f"{name} exists and was not installed by Restow; it is left unchanged")
    for controller in foreign.controllers:
        print_note(f"{controller}; do not run two controllers for the same objects")


@click.command()
@KUBECONFIG
@NAMESPACE
@click.option(
    "--reason", default="", help="Shown wherever a job waits because of the pause; by default the last reason is kept."
)
@OUTPUT
def pause(kubeconfig: Path | None, namespace: str, reason: str, output: str) -> None:
    """Stop all evictions until `restow resume`."""
    _turn_stop_switch(kubeconfig, namespace, {"paused": "true", **({"reason": reason} if reason else {})}, output)


@click.command()
@KUBECONFIG
@NAMESPACE
@OUTPUT
def resume(kubeconfig: Path | None, namespace: str, output: str) -> None:
    """Allow evictions again."""
    _turn_stop_switch(kubeconfig, namespace, {"paused": "false", "reason": None}, output)


def _turn_stop_switch(kubeconfig: Path | None, namespace: str, data: dict[str, str | None], output: str) -> None:
    from restow.adapters.kubernetes import ConfigError
    from restow.migration.stop_switch import REASON_KEY, stop_reason
    from restow.ports import ApiError
    from restow.running.one_shot_client import write_stop_switch
    from restow.running.preflight import CannotRun

    with as_usage_errors(ConfigError), as_failures(ApiError, CannotRun):
        switch = asyncio.run(write_stop_switch(kubeconfig, namespace, data))
    message = stop_reason(switch)
    if output == "json":
        reason = (switch.data or {}).get(REASON_KEY) or None
        click.echo(msgspec.json.encode({"paused": message is not None, "reason": reason}))
    else:
        click.echo(message or "not paused: evictions are allowed")


COMMANDS = (run, snapshot, install, pause, resume)
