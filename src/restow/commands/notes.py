"""What people are told beside a result: on stderr, each line by the name of the program."""

from __future__ import annotations

import click


def note(line: str) -> None:
    click.echo(f"restow: {line}", err=True)
