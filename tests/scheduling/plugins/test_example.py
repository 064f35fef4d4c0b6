"""The example plugin: installed beside Restow, found by its entry point, and it does what its README says."""

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

from restow.model.cluster import Snapshot
from restow.model.wire import WireError
from restow.scheduling.engine import Placed, Unplaced
from restow.scheduling.framework import Cycle
from restow.scheduling.registry import installed, read_profile
from tests.model.cluster.builders import node, pod

EXAMPLE = Path(__file__).parents[3] / "examples" / "plugin"
GRADED = {"name": "NodeGrade", "weight": 5, "arguments": {"worth": {"gold": 100}, "refused": ["scrap"]}}


def by_hand(target: Path) -> None:
    """What an installer leaves behind: the module, and the metadata with its entry points."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copy(EXAMPLE / "node_grade.py", target)
    metadata = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["restow.plugins"]
    lines = ["[restow.plugins]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def by_pip(target: Path) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed here, and tests do not use the network")
    source = shutil.copytree(EXAMPLE, target.parent / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, source], check=True)


@pytest.fixture(params=[by_hand, by_pip], ids=["installed by hand", "installed by pip"])
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install: Callable[[Path], None] = request.param
    target = tmp_path / "site"
    target.mkdir()
    install(target)
    monkeypatch.syspath_prepend(str(target))
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "node_grade", raising=False)


def place(**grades: str) -> Placed | Unplaced:
    snapshot = Snapshot()
    for name, grade in grades.items():
        snapshot.apply_node(node(name, labels={"example.com/grade": grade}))
    profile = read_profile({"tiers": [{"plugins": [GRADED]}]}, installed())
    return profile.engine.place(Cycle(pod("new"), snapshot, 0.0))


@pytest.mark.usefixtures("example")
def test_good_grades_attract_pods() -> None:
    placed = place(a="silver", b="gold", c="scrap")
    assert isinstance(placed, Placed) and placed.node == "b"


@pytest.mark.usefixtures("example")
def test_refused_grades_take_none_and_say_so() -> None:
    unplaced = place(a="scrap", b="scrap")
    assert isinstance(unplaced, Unplaced)
    assert "2 node(s) had a refused example.com/grade" in unplaced.message


@pytest.mark.usefixtures("example")
def test_wrong_arguments_are_all_told_with_their_place() -> None:
    wrong = {"name": "NodeGrade", "arguments": {"worth": {"gold": 101}, "refused": "scrap", "colour": "red"}}
    with pytest.raises(WireError) as told:
        read_profile({"tiers": [{"plugins": [wrong]}]}, installed())
    assert [str(problem).split(": ")[1] for problem in told.value.problems] == ["colour", "worth", "refused"]


def test_without_it_the_name_is_unknown() -> None:
    with pytest.raises(WireError, match="no plugin is called 'NodeGrade'"):
        read_profile({"tiers": [{"plugins": [GRADED]}]}, installed())
