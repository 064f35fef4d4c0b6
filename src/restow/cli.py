"""The command line: parses, hands over to the rest, prints. Heavy imports happen inside the commands that need them.

Stdout carries only the result. A mistake gives one line on stderr: exit code 2 for bad input, 1 for "could not".
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from restow import __version__
from restow.commands import asking, moving, operating
from restow.commands.mistakes import CouldNot, misfortunes, unwritable
from restow.commands.notes import end_line, note
from restow.commands.operating import announce

_NOT_SETTLED = "the embedded cluster did not settle in time; is the machine very busy?"
_CHAPTERS = {
    "Try it": ("demo", "dev"),
    "Ask, and change nothing": ("plan", "replay", "schedule", "explain", "snapshot"),
    "Move pods": ("move", "apply", "deschedule", "pause", "resume"),
    "Run it": ("install", "run"),
}
_EXIT_CODES = (
    "Exit codes: 0 done, 1 could not, 2 bad input, 130 interrupted. Each has one line on stderr that says why."
)


class _Commands(click.Group):
    """The commands in the order in which people need them, not in that of the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in _CHAPTERS.values() for name in names]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(f"No such command {args[0]!r}. There are {', '.join(self.list_commands(ctx))}.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # of which click would make an empty line first, also in files
            end_line()
            raise click.Abort from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _CHAPTERS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(80)) for name in names])


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXIT_CODES,
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
    """A story on an embedded cluster, which ends by itself.

    Capacity scatters, a gang does not fit, a plan is made and carried out, and the gang starts."""
    from restow import demo as story
    from restow.control.descheduler import Changed
    from restow.running.embedded import PartStopped

    try:
        with misfortunes(Changed, PartStopped):
            story.run(seed=seed, as_json=output == "json", save=picture)
    except TimeoutError as problem:
        raise CouldNot(_NOT_SETTLED) from problem
    except OSError as problem:
        raise CouldNot(f"{problem.filename or 'output'}: {problem.strerror}") from problem


@restow.command()
@click.option("--port", type=click.IntRange(0, 65535), default=6444, show_default=True, help="0 picks a free one.")
@click.option("--nodes", type=click.IntRange(0, 10_000), default=3, show_default=True, help="How many Ready nodes.")
def dev(port: int, nodes: int) -> None:
    """An embedded cluster for kubectl, until Ctrl-C.

    The first line of output is the path of its kubeconfig, and nothing else."""
    from restow import app
    from restow.commands import patience
    from restow.model.words import number_of
    from restow.running.embedded import PartStopped
    from restow.running.logs import log_to_stderr

    log_to_stderr()
    starting = ExitStack()

    def tell(kubeconfig: Path, url: str) -> None:
        starting.close()
        announce(kubeconfig, url)

    try:
        starting.enter_context(patience.shown()).doing(f"starting a cluster of {number_of(nodes, 'node')}")
        work = app.serve_embedded(port=port, nodes=nodes, announce=tell)
        asyncio.run(app.until_stopped(work, _tell_end))
    except PartStopped as problem:
        raise CouldNot(str(problem)) from problem
    except TimeoutError as problem:
        raise CouldNot(_NOT_SETTLED) from problem
    except OSError as problem:
        if problem.filename:
            raise unwritable(problem) from problem
        advice = "; choose another with --port" if port else ""
        raise CouldNot(f"cannot serve on 127.0.0.1:{port}: {os.strerror(problem.errno or 0)}{advice}") from problem
    finally:
        starting.close()


def _tell_end(asked: str) -> None:
    with suppress(OSError):  # a terminal that was closed hears nothing
        note(f"stopped by {asked}; nothing is kept")


for command in (*asking.COMMANDS, *moving.COMMANDS, *operating.COMMANDS):
    restow.add_command(command)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever is stopped by others says and tidies as much
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a picture with question marks is better than none
            stream.reconfigure(errors="replace")
    try:
        try:
            code = restow.main(standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as problem:
            raise unwritable(problem) from problem
    except click.ClickException as mistake:
        note(" ".join(mistake.format_message().split()))
        code = mistake.exit_code
    except (click.Abort, KeyboardInterrupt):
        note("interrupted")
        code = 130
    sys.exit(code or 0)
