"""Fixtures that run `restow` as users do. `run` calls `main` in this process, which is fast; `spawn` and `start` use a
new process, for tests of process behaviour.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from restow.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., AbstractContextManager["subprocess.Popen[str]"]]


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from restow.cli import main; main()", *arguments]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return {**own, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "100"}


@pytest.fixture
def run(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["restow", *arguments])
        terminated = signal.getsignal(signal.SIGTERM)
        with CliRunner().isolation(env={**environment, "KUBECONFIG": None}) as (out, err, _):
            try:
                with pytest.raises(SystemExit) as ended:
                    main()
            finally:
                signal.signal(signal.SIGTERM, terminated)
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(
            arguments, ended.value.code, out.getvalue().decode(), err.getvalue().decode()
        )

    return run


@pytest.fixture
def spawn(environment: dict[str, str]) -> Run:
    def spawn(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            _command(*arguments), env=environment, capture_output=True, text=True, timeout=90, check=False
        )

    return spawn


@pytest.fixture
def start(environment: dict[str, str]) -> Start:
    @contextmanager
    def start(*arguments: str) -> Iterator[subprocess.Popen[str]]:
        child = subprocess.Popen(
            _command(*arguments), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            yield child
        finally:
            child.kill()
            child.communicate()

    return start
