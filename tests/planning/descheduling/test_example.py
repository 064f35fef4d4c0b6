"""The example of a descheduler plugin: installed beside Restow, found by its entry point, true to its README."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from restow.model.wire import WireError
from restow.planning.descheduling.cycle import Guarded, Outcome, run_cycle
from restow.planning.descheduling.policy import read_policy
from restow.planning.descheduling.registry import installed
from restow.planning.movable import Movability
from tests.planning.clusters import app, cluster, moves, reasons, request, ten

EXAMPLE = Path(__file__).parents[3] / "examples" / "descheduler-plugin"
RETIRES = {"example.com/retires": "soon"}


def by_hand(target: Path) -> None:
    """What an installer leaves behind: the module, and the metadata with its entry points."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copy(EXAMPLE / "retiring.py", target)
    metadata = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(head)
    points = project["entry-points"]["restow.descheduler"]
    lines = ["[restow.descheduler]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


def by_pip(target: Path) -> None:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed here, and tests do not use the network")
    source = shutil.copytree(EXAMPLE, target.parent / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, source], check=True)


@pytest.fixture(params=[by_hand, by_pip], ids=["installed by hand", "installed by pip"])
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "site"
    target.mkdir()
    request.param(target)
    monkeypatch.syspath_prepend(str(target))
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "retiring", raising=False)


def section() -> dict[str, Any]:
    """What the README configures."""
    written = re.search(r"```yaml\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert written is not None
    found: dict[str, Any] = yaml.safe_load(written.group(1))["descheduler"]
    return found


def retired(*nodes: Any) -> Outcome:
    snapshot = cluster(nodes, [app("p", on="a"), app("q", on="b")])
    asked = request(snapshot)
    assert isinstance(asked.mobility, Movability)
    profile = read_policy(section(), installed()).profile("retire")
    return run_cycle(profile, snapshot, replace(asked, mobility=Guarded(asked.mobility, profile.guards)))


@pytest.mark.usefixtures("example")
def test_pods_leave_nodes_that_retire_for_nodes_that_do_not() -> None:
    found = retired(ten("a", labels=RETIRES), ten("b"), ten("c", labels=RETIRES))
    assert moves(found.plan) == [("p", "a", "b")] and found.planners == {"uid-p": "RetiringNodes"}


@pytest.mark.usefixtures("example")
def test_a_pod_that_has_nowhere_to_go_stays_with_the_reason() -> None:
    found = retired(ten("a", labels=RETIRES), ten("b", labels=RETIRES))
    assert not found.plan.moves
    assert reasons(found.plan)["p"].startswith("it is on a, which has the label example.com/retires, but 1 other nodes")


@pytest.mark.usefixtures("example")
def test_wrong_arguments_are_told_with_their_place() -> None:
    wrong = {"profiles": [{"name": "a", "pluginConfig": [{"name": "RetiringNodes", "args": {"label": "", "x": 1}}]}]}
    with pytest.raises(WireError, match=r"profiles\[0\].pluginConfig\[0\].args.x: unknown field"):
        read_policy(wrong, installed())


def test_without_it_the_name_is_unknown() -> None:
    with pytest.raises(WireError, match="no plugin is called 'RetiringNodes'"):
        read_policy(section(), installed())
