"""Commands that are over soon start soon: they load nothing that they do not need."""

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
        pytest.param("restow.running.living", HEAVY, id="pause and resume"),
        pytest.param("restow.running.living, restow.snapshots.capture", HEAVY, id="snapshot"),
    ],
)
def test_what_is_not_needed_is_not_loaded(module: str, spared: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(module)], capture_output=True, text=True, check=True)
    assert spared.isdisjoint(done.stdout.split())


MISTAKEN = """
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
def test_a_mistake_is_told_before_anything_heavy_is_loaded(words: list[str]) -> None:
    program = [sys.executable, "-c", MISTAKEN, *words]
    code, *loaded = subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()
    assert (code, HEAVY & set(loaded)) == ("2", set())
