"""Mistakes and misfortunes on the command line: one line on stderr; exit code 2 for bad input, 1 for "could not"."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click


class CouldNot(click.ClickException):
    """The request was fine, and it could not be carried out."""

    exit_code = 1


@contextmanager
def user_mistakes(*others: type[Exception]) -> Iterator[None]:
    """A file that cannot be read is the user's mistake: one line, exit code 2. So are these."""
    from restow.model.wire import WireError

    mistakes: tuple[type[Exception], ...] = (WireError, *others)
    try:
        yield
    except mistakes as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from error


@contextmanager
def misfortunes(*problems: type[Exception]) -> Iterator[None]:
    """These are nobody's mistake: one line, exit code 1."""
    try:
        yield
    except problems as problem:
        raise CouldNot(str(problem)) from problem


def unwritable(problem: OSError) -> CouldNot:
    """A file, or our own output, which nobody takes any more: what it still holds goes nowhere, so leaving is quiet."""
    if problem.filename:
        return CouldNot(f"cannot write {problem.filename}: {problem.strerror}")
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CouldNot(f"cannot write the output: {problem.strerror or problem}")
