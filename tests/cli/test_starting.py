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
