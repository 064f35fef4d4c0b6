"""The commands for a cluster that lives: `run`, `snapshot`, `install`, `pause` and `resume`."""

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
from restow.commands.looking import HowFar
from restow.commands.mistakes import misfortunes, unwritable, user_mistakes
from restow.commands.notes import note
from restow.commands.options import KUBECONFIG, NAMESPACE, OUTPUT, named_configuration
from restow.defaults import HOME, PORT

if TYPE_CHECKING:
    from restow.client.verbs import Client
    from restow.model.objects import Document
    from restow.running.installing import Found

log = logging.getLogger(__name__)


def announce(kubeconfig: Path, url: str) -> None:
    """The first line of output is the path of the kubeconfig, and nothing else."""
    try:
        click.echo(str(kubeconfig))  # which also flushes
    except OSError as problem:
        raise unwritable(problem) from problem
    note(f"serving {url}; in another terminal: export KUBECONFIG={kubeconfig}; Ctrl-C stops")


@click.command()
@KUBECONFIG
@click.option("--embedded", is_flag=True, help="Against an embedded cluster instead, which lives as long as this.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Configuration file.")
@click.option("--components", help="Which to run, with commas between them; all by default.")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Let several processes take over from each other; by default, unless embedded.",
)
@click.option("--lease-duration", default="15s", show_default=True, help="After which silence another takes over.")
@click.option("--namespace", help="Where the leases and the stop switch are; in a pod, its own.")
@click.option("--address", help="Where /healthz, /readyz and /metrics are served; in a pod, everywhere.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 picks a free one.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(kubeconfig: Path | None, embedded: bool, components: str | None, log_format: str, **written: Any) -> None:
    """Run Restow's components against a cluster, until Ctrl-C."""
    from restow import app
    from restow.adapters import event_loop
    from restow.adapters.kubernetes import ConfigError
    from restow.running.embedded import PartStopped
    from restow.running.logs import log_to_stderr
    from restow.running.posts import PostLost
    from restow.running.reaching import CannotRun

    if embedded and kubeconfig is not None:
        raise click.UsageError("--kubeconfig and --embedded exclude each other")
    log_to_stderr(logging.INFO, as_json=log_format == "json")
    with user_mistakes(ConfigError), misfortunes(CannotRun, PartStopped, PostLost):
        options = app.run_options(embedded=embedded, components=_components(components), **written)
        work = app.run_embedded(options, announce=announce) if embedded else app.run_against(kubeconfig, options)
        event_loop.run(app.until_stopped(work, lambda asked: log.info("stopping", extra={"asked": asked})))


def _components(written: str | None) -> tuple[str, ...]:
    """The names between commas, each once; all where nothing is said."""
    from restow.running.parts import PARTS

    names = tuple(dict.fromkeys(name.strip() for name in written.split(","))) if written is not None else tuple(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        told = f"no component is called {', '.join(map(repr, unknown))}; there are {', '.join(PARTS)}"
        raise click.BadParameter(told, param_hint="'--components'")
    return names


@click.command()
@KUBECONFIG
@NAMESPACE
@click.option("--anonymise", is_flag=True, help="Only what Restow reads, and aliases for all that is readable.")
def snapshot(kubeconfig: Path | None, namespace: str, anonymise: bool) -> None:
    """Print the cluster as a snapshot file, for the questions above."""
    from restow.adapters.kubernetes import ConfigError
    from restow.ports import ApiError
    from restow.running.living import ask
    from restow.snapshots.capture import CannotList

    def printing(client: Client) -> Awaitable[None]:
        return _print_anonymised(client) if anonymise else _print_whole(client, namespace)

    with user_mistakes(ConfigError), misfortunes(CannotList, ApiError):
        asyncio.run(ask(kubeconfig, printing))


async def _print_whole(client: Client, namespace: str) -> None:
    """Every object, and the configuration by which Restow goes there, so that answers from the file are the same."""
    from restow.running.installed import installed_document
    from restow.snapshots.capture import documents

    file = _SnapshotFile()
    async for one in documents(client, HowFar(), note):
        file.write([one])
    file.write(await installed_document(client, namespace))
    file.close()


async def _print_anonymised(client: Client) -> None:
    from restow.snapshots.anonymising import Anonymiser
    from restow.snapshots.capture import inventory

    file = _SnapshotFile()
    file.write(Anonymiser(await inventory(client, HowFar(), note)).documents())
    file.close()


class _SnapshotFile:
    """A v1 List on stdout, written object by object: an unfinished one is not JSON, and nobody takes it for whole."""

    def __init__(self) -> None:
        self._out = sys.stdout.buffer
        self._between = b'{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[\n'

    def write(self, documents: Iterable[Document]) -> None:
        for one in documents:
            self._put(self._between + msgspec.json.encode(one))
            self._between = b",\n"

    def close(self) -> None:
        self._put((b"" if self._between == b",\n" else self._between) + b"\n]}\n")

    def _put(self, data: bytes) -> None:
        try:
            self._out.write(data)
        except OSError as problem:
            raise unwritable(problem) from problem


@click.command()
@KUBECONFIG
@click.option("--namespace", default=HOME, show_default=True, help="Where it is to be, which need not be there yet.")
@click.option("--image", default=f"restow:{__version__}", show_default=True, help="What the Deployment runs.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="The configuration to install; by default the one that is installed there, else the defaults.",
)
def install(kubeconfig: Path | None, namespace: str, image: str, config: Path | None) -> None:
    """Print what a cluster needs to run Restow, for kubectl apply. The cluster is looked at, not changed."""
    from restow.model.names import dns_label_problems
    from restow.running.installed import look_before_install
    from restow.running.installing import CONFIGURATION, documents, manifest

    if wrong := dns_label_problems(namespace):
        raise click.BadParameter(f"{namespace!r} {'; '.join(wrong)}", param_hint="'--namespace'")
    if not image:
        raise click.BadParameter("name the image that you built", param_hint="'--image'")
    with user_mistakes():
        named_configuration(config)  # what is wrong with it is told before a cluster is looked at
        written = config.read_text() if config else None
    before = asyncio.run(look_before_install(kubeconfig, namespace))
    without: tuple[str, ...] = ()
    if isinstance(before, str):
        note(f"no cluster was looked at; mind other makers of our kinds there: {before}")
    else:
        without = before.found.definitions
        _tell_found(before.found)
        if written is None and before.configuration is not None:
            written = before.configuration
            note(f"the configuration that is installed in {namespace} stays as it is; --config replaces it")
    with user_mistakes():
        made = documents(
            namespace=namespace,
            image=image,
            without=without,
            configuration=CONFIGURATION if written is None else written,
        )
    sys.stdout.write(manifest(made))


def _tell_found(found: Found) -> None:
    for name in found.definitions:
        note(f"{name} is there and was not made by Restow; it is left as it is")
    for master in found.masters:
        note(f"{master}: two masters for one object do not go well together")


@click.command()
@KUBECONFIG
@NAMESPACE
@click.option("--reason", default="", help="Shown wherever somebody waits because of it; the last one stays otherwise.")
@OUTPUT
def pause(kubeconfig: Path | None, namespace: str, reason: str, output: str) -> None:
    """Stop all evictions, now and until `restow resume`."""
    _switch(kubeconfig, namespace, {"paused": "true", **({"reason": reason} if reason else {})}, output)


@click.command()
@KUBECONFIG
@NAMESPACE
@OUTPUT
def resume(kubeconfig: Path | None, namespace: str, output: str) -> None:
    """Let evictions go on."""
    _switch(kubeconfig, namespace, {"paused": "false", "reason": None}, output)


def _switch(kubeconfig: Path | None, namespace: str, data: dict[str, str | None], output: str) -> None:
    from restow.adapters.kubernetes import ConfigError
    from restow.migration.stop import REASON_KEY, stopped
    from restow.ports import ApiError
    from restow.running.living import turn_stop_switch
    from restow.running.reaching import CannotRun

    with user_mistakes(ConfigError), misfortunes(ApiError, CannotRun):
        switch = asyncio.run(turn_stop_switch(kubeconfig, namespace, data))
    told = stopped(switch)
    if output == "json":
        reason = (switch.data or {}).get(REASON_KEY) or None
        click.echo(msgspec.json.encode({"paused": told is not None, "reason": reason}))
    else:
        click.echo(told or "evictions go on")


COMMANDS = (run, snapshot, install, pause, resume)
