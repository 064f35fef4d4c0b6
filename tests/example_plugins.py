"""The example plugins, installed beside Restow in each way there is: a folder to put on sys.path comes out."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
Install = Callable[[Path, Path], None]


def by_hand(example: Path, target: Path) -> None:
    """What an installer leaves behind: the module, and the metadata with its entry points."""
    project = tomllib.loads((example / "pyproject.toml").read_text())["project"]
    for module in example.glob("*.py"):
        shutil.copy(module, target)
    metadata = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(head)
    [(group, points)] = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def by_pip(example: Path, target: Path) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed here, and tests do not use the network")
    source = shutil.copytree(example, target.parent / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, source], check=True)


WAYS: dict[str, Install] = {"installed by hand": by_hand, "installed by pip": by_pip}


def installed(way: str, example: Path, folder: Path) -> Path:
    target = folder / "site"
    target.mkdir()
    WAYS[way](example, target)
    return target


def use(site: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the example found from now on, and loaded from there."""
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, module, raising=False)
