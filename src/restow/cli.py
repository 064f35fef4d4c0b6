"""The command line: parses arguments, calls the commands, prints errors. Heavy imports happen inside the commands.

Stdout has only the result. An error is one line on stderr, with exit code 2 for bad input and 1 for a request that
could not be carried out.
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
from restow.commands import admin, migrate, query
from restow.commands.admin import announce_kubeconfig
from restow.commands.errors import CommandFailed, as_failures, write_error
from restow.commands.stderr import end_interrupted_line, print_note

_TIMEOUT = "the embedded cluster was not ready in time; is the machine overloaded?"
_SECTIONS = {
    "Try it": ("demo", "dev"),
    "Questions, without changes": ("plan", "replay", "schedule", "explain", "snapshot"),
    "Move pods": ("move", "apply", "deschedule", "pause", "resume"),
    "Operate": ("install", "run"),
}
_EXIT_CODES = "Exit codes: 0 success, 1 failure, 2 bad input, 130 interrupted. Errors are one line on stderr."


class _Commands(click.Group):
    """Lists the commands in sections, in the order in which users need them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in _SECTIONS.values() for name in names]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise click.UsageError(f"No such command {args[0]!r}. Commands: {', '.join(self.list_commands(ctx))}.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line first, even into files
            end_interrupted_line()
            raise click.Abort from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in _SECTIONS.items():
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
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Format of the report.")
@click.option(
    "--seed", type=int, default=7, show_default=True, help="Random seed; the same seed gives the same names and UIDs."
)
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Also save the final view as SVG.")
def demo(output: str, seed: int, picture: Path | None) -> None:
    """Demonstrate Restow on an embedded cluster; ends by itself.

    Idle capacity is scattered, a gang of pods does not fit, a plan is made and carried out, and the gang starts."""
    from restow import demo as story
    from restow.control.descheduler import ClusterChanged
    from restow.running.embedded_cluster import UnexpectedStop

    try:
        with as_failures(ClusterChanged, UnexpectedStop):
            story.run(seed=seed, as_json=output == "json", save=picture)
    except TimeoutError as problem:
        raise CommandFailed(_TIMEOUT) from problem
    except OSError as problem:
        raise CommandFailed(f"{problem.filename or 'output'}: {problem.strerror}") from problem


@restow.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6444,
    show_default=True,
    help="Port of the API server; 0 chooses a free one.",
)
@click.option("--nodes", type=click.IntRange(0, 10_000), default=3, show_default=True, help="Number of nodes.")
def dev(port: int, nodes: int) -> None:
    """Serve an embedded cluster for kubectl until Ctrl-C.

    The first line on stdout is the path of its kubeconfig."""
    from restow import app
    from restow.commands import progress
    from restow.model.counted_nouns import counted_noun
    from restow.running.embedded_cluster import UnexpectedStop
    from restow.running.logs import log_to_stderr

    log_to_stderr()
    progress_context = ExitStack()

    def announce(kubeconfig: Path, url: str) -> None:
        progress_context.close()
        announce_kubeconfig(kubeconfig, url)

    try:
        progress_context.enter_context(progress.progress_line()).begin(
            f"starting a cluster of {counted_noun(nodes, 'node')}"
        )
        work = app.serve_embedded(port=port, nodes=nodes, announce=announce)
        asyncio.run(app.until_stopped(work, _print_end))
    except UnexpectedStop as problem:
        raise CommandFailed(str(problem)) from problem
    except TimeoutError as problem:
        raise CommandFailed(_TIMEOUT) from problem
    except OSError as problem:
        if problem.filename:
            raise write_error(problem) from problem
        hint = "; use --port to choose another" if port else ""
        raise CommandFailed(f"cannot listen on 127.0.0.1:{port}: {os.strerror(problem.errno or 0)}{hint}") from problem
    finally:
        progress_context.close()


def _print_end(signal_name: str) -> None:
    with suppress(OSError):  # after SIGHUP the terminal may be closed
        print_note(f"stopped by {signal_name}; the cluster is deleted")


for command in (*query.COMMANDS, *migrate.COMMANDS, *admin.COMMANDS):
    restow.add_command(command)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM cleans up and reports as Ctrl-C does
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # print characters that the terminal cannot show as question marks
            stream.reconfigure(errors="replace")
    try:
        try:
            code = restow.main(standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as problem:
            raise write_error(problem) from problem
    except click.ClickException as error:
        print_note(" ".join(error.format_message().split()))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print_note("interrupted")
        code = 130
    sys.exit(code or 0)
