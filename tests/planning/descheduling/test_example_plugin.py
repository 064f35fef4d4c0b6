"""The example of a descheduler plugin: installed beside Restow, found by its entry point, true to its README."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from restow.model.wire import WireError
from restow.planning.descheduling.policy_section import read_policy
from restow.planning.descheduling.profile_cycle import CycleOutcome, GuardedEvictionRules, run_cycle
from restow.planning.eviction_rules import ConfiguredEvictionRules
from restow.running.plugins import descheduling_plugins
from tests import example_plugins
from tests.planning.clusters import app, move_triples, node_of_ten, plan_request, refusal_reasons, snapshot_of

EXAMPLE = example_plugins.EXAMPLES / "descheduler-plugin"
RETIRES = {"example.com/retires": "soon"}


@pytest.fixture(scope="module", params=example_plugins.WAYS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example_plugins.installed(request.param, EXAMPLE, tmp_path_factory.mktemp("example"))


@pytest.fixture
def example(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example_plugins.use(site, "retiring", monkeypatch)


def section() -> dict[str, Any]:
    """What the README configures."""
    written = re.search(r"```yaml\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert written is not None
    found: dict[str, Any] = yaml.safe_load(written.group(1))["descheduler"]
    return found


def retired(*nodes: Any) -> CycleOutcome:
    snapshot = snapshot_of(nodes, [app("p", on="a"), app("q", on="b")])
    asked = plan_request(snapshot)
    assert isinstance(asked.eviction_rules, ConfiguredEvictionRules)
    profile = read_policy(section(), descheduling_plugins()).profile_called("retire")
    return run_cycle(
        profile, snapshot, replace(asked, eviction_rules=GuardedEvictionRules(asked.eviction_rules, profile.guards))
    )


@pytest.mark.usefixtures("example")
def test_retiring_nodes_plugin_moves_pods_to_nodes_that_stay() -> None:
    found = retired(node_of_ten("a", labels=RETIRES), node_of_ten("b"), node_of_ten("c", labels=RETIRES))
    assert move_triples(found.plan) == [("p", "a", "b")] and found.planner_of == {"uid-p": "RetiringNodes"}


@pytest.mark.usefixtures("example")
def test_retiring_nodes_plugin_gives_the_reason_for_a_pod_that_stays() -> None:
    found = retired(node_of_ten("a", labels=RETIRES), node_of_ten("b", labels=RETIRES))
    assert not found.plan.moves
    assert refusal_reasons(found.plan)["p"].startswith(
        "it is on a, which has the label example.com/retires, but 1 other node "
    )


@pytest.mark.usefixtures("example")
def test_retiring_nodes_plugin_reports_wrong_arguments_with_their_path() -> None:
    wrong = {"profiles": [{"name": "a", "pluginConfig": [{"name": "RetiringNodes", "args": {"label": "", "x": 1}}]}]}
    with pytest.raises(WireError, match=r"profiles\[0\].pluginConfig\[0\].args.x: unknown field"):
        read_policy(wrong, descheduling_plugins())


def test_retiring_nodes_plugin_is_unknown_if_not_installed() -> None:
    with pytest.raises(WireError, match="no plugin is called 'RetiringNodes'"):
        read_policy(section(), descheduling_plugins())
