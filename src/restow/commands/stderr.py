"""Messages on stderr, beside the result on stdout."""

from __future__ import annotations

import sys

import click


def print_note(line: str) -> None:
    """Print a line that begins with the name of the program."""
    click.echo(f"restow: {line}", err=True)


def end_interrupted_line() -> None:
    """End the line in which the terminal has echoed ^C, so that the next message begins on its own line."""
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(err=True)
