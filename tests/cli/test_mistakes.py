"""A mistake on the command line: one line on stderr, nothing on stdout, the documented exit code."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["frobnicate"], "No such command 'frobnicate'.", id="unknown command"),
        pytest.param(["dev", "--port", "web"], "Invalid value for '--port'", id="port is not a number"),
        pytest.param(["dev", "--nodes", "-1"], "Invalid value for '--nodes'", id="negative number of nodes"),
        pytest.param(["demo", "-o", "xml"], "Invalid value for '-o'", id="unknown output form"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Run, arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("restow: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_command_prints_the_help(run: Run) -> None:
    done = run()
    assert done.returncode == 0
    assert "Commands:" in done.stdout
