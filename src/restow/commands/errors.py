"""Errors of commands: one line on stderr, with exit code 2 for bad input and 1 for a failure of a valid request."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click


class CommandFailed(click.ClickException):
    """The request was valid and could not be carried out."""

    exit_code = 1


@contextmanager
def as_usage_errors(*errors: type[Exception]) -> Iterator[None]:
    """Turn WireError, OSError and `errors` into a usage error: one line, exit code 2."""
    from restow.model.wire import WireError

    bad_input: tuple[type[Exception], ...] = (WireError, *errors)
    try:
        yield
    except bad_input as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from error


@contextmanager
def as_failures(*errors: type[Exception]) -> Iterator[None]:
    """Turn `errors` into a failure of the command: one line, exit code 1."""
    try:
        yield
    except errors as error:
        raise CommandFailed(str(error)) from error


def write_error(error: OSError) -> CommandFailed:
    """The failure to write a file or, without a file name, stdout."""
    if error.filename:
        return CommandFailed(f"cannot write {error.filename}: {error.strerror}")
    # Python flushes stdout again when it exits. Without a reader that would fail once more and print a traceback.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CommandFailed(f"cannot write to stdout: {error.strerror or error}")
