"""Short commands start fast: they import nothing that they do not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"numpy", "highspy", "aiohttp", "prometheus_client", "rich"}
PROGRAM = "import sys; import {}; print(*sys.modules)"


@pytest.mark.parametrize(
    ("module", "spared"),
    [
        pytest.param("restow.cli", HEAVY | {"restow.model.objects"}, id="--help"),
        pytest.param("restow.running.one_shot_client", HEAVY, id="pause and resume"),
        pytest.param("restow.running.one_shot_client, restow.snapshots.capture", HEAVY, id="snapshot"),
    ],
)
def test_module_imports_nothing_heavy(module: str, spared: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(module)], capture_output=True, text=True, check=True)
    assert spared.isdisjoint(done.stdout.split())


BAD_INPUT_PROGRAM = """
import sys
from click.testing import CliRunner
from restow.cli import restow
done = CliRunner().invoke(restow, sys.argv[1:])
print(done.exit_code, *sys.modules)
"""


@pytest.mark.parametrize(
    "words",
    [["move", "a/b", "--ttl", "5"], ["plan", "--time-limit", "5"], ["plan", "--shape", "cpu"], ["explain"], ["move"]],
    ids=" ".join,
)
def test_bad_input_is_reported_before_heavy_imports(words: list[str]) -> None:
    program = [sys.executable, "-c", BAD_INPUT_PROGRAM, *words]
    code, *loaded = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
    assert (code, HEAVY & set(loaded)) == ("2", set())
