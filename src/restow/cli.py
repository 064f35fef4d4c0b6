"""The command line: parses, hands over to the rest, prints. Heavy imports happen inside the commands that need them.

Stdout carries only the result. A mistake gives one line on stderr: exit code 2 for bad input, 1 for "could not".
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from restow import __version__


class CouldNot(click.ClickException):
    """The request was fine, and it could not be carried out."""

    exit_code = 1


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
    """A living embedded cluster, and how capacity scatters in it. Ends by itself."""
    from restow import demo as story

    try:
        story.run(seed=seed, as_json=output == "json", save=picture)
    except TimeoutError as problem:
        raise CouldNot("the embedded cluster did not settle in time; is the machine very busy?") from problem


@restow.command()
@click.option("--port", type=click.IntRange(0, 65535), default=6444, show_default=True, help="0 picks a free one.")
@click.option("--nodes", type=click.IntRange(0, 10_000), default=3, show_default=True, help="How many Ready nodes.")
def dev(port: int, nodes: int) -> None:
    """An embedded cluster for kubectl, until Ctrl-C. The first line of output is the path of its kubeconfig."""
    from restow import app

    try:
        asyncio.run(app.serve_until_stopped(port=port, nodes=nodes, announce=_announce))
    except OSError as problem:
        advice = "; choose another with --port" if port else ""
        raise CouldNot(f"cannot serve on 127.0.0.1:{port}: {problem.strerror or problem}{advice}") from problem


def _announce(kubeconfig: Path, url: str) -> None:
    click.echo(str(kubeconfig))
    sys.stdout.flush()
    click.echo(f"serving {url}; in another terminal: export KUBECONFIG={kubeconfig}; Ctrl-C stops", err=True)


def main() -> None:
    try:
        code = restow.main(standalone_mode=False)
    except click.ClickException as mistake:
        click.echo(f"restow: {mistake.format_message()}", err=True)
        code = mistake.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code or 0)
