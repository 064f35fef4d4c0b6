"""The example plugin: installed beside Restow, found by its entry point, and it does what its README says."""

from __future__ import annotations

from pathlib import Path

import pytest

from restow.model.snapshot import Snapshot
from restow.model.wire import WireError
from restow.running.plugins import scheduling_plugins
from restow.scheduling.framework import Cycle
from restow.scheduling.registry import read_profile
from restow.scheduling.schedule_result import NodeFound, NoNodeFound
from tests import example_plugins
from tests.model.cluster.builders import node, pod

EXAMPLE = example_plugins.EXAMPLES / "plugin"
GRADED = {"name": "NodeGrade", "weight": 5, "arguments": {"worth": {"gold": 100}, "refused": ["scrap"]}}


@pytest.fixture(scope="module", params=example_plugins.WAYS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example_plugins.installed(request.param, EXAMPLE, tmp_path_factory.mktemp("example"))


@pytest.fixture
def example(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example_plugins.use(site, "node_grade", monkeypatch)


def place(**grades: str) -> NodeFound | NoNodeFound:
    snapshot = Snapshot()
    for name, grade in grades.items():
        snapshot.apply_node(node(name, labels={"example.com/grade": grade}))
    profile = read_profile({"tiers": [{"plugins": [GRADED]}]}, scheduling_plugins())
    return profile.engine.find_node(Cycle(pod("new"), snapshot, 0.0))


@pytest.mark.usefixtures("example")
def test_node_grade_attracts_pods_to_good_grades() -> None:
    placed = place(a="silver", b="gold", c="scrap")
    assert isinstance(placed, NodeFound) and placed.node == "b"


@pytest.mark.usefixtures("example")
def test_node_grade_refuses_pods_on_refused_grades() -> None:
    unplaced = place(a="scrap", b="scrap")
    assert isinstance(unplaced, NoNodeFound)
    assert "2 node(s) had a refused example.com/grade" in unplaced.message


@pytest.mark.usefixtures("example")
def test_node_grade_reports_all_wrong_arguments_with_their_path() -> None:
    wrong = {"name": "NodeGrade", "arguments": {"worth": {"gold": 101}, "refused": "scrap", "colour": "red"}}
    with pytest.raises(WireError) as raised:
        read_profile({"tiers": [{"plugins": [wrong]}]}, scheduling_plugins())
    assert [str(problem).split(": ")[1] for problem in raised.value.problems] == ["colour", "worth", "refused"]


def test_node_grade_is_unknown_without_its_package() -> None:
    with pytest.raises(WireError, match="no plugin is called 'NodeGrade'"):
        read_profile({"tiers": [{"plugins": [GRADED]}]}, scheduling_plugins())
