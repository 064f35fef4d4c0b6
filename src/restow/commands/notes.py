"""What people are told beside a result: on stderr, each line by the name of the program."""

from __future__ import annotations

import sys

import click


def note(line: str) -> None:
    click.echo(f"restow: {line}", err=True)


def end_line() -> None:
    """A terminal shows ^C where somebody pressed it: what is told then begins on a line of its own."""
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(err=True)
