"""Plugins of others, found through entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from restow.model.snapshot import Snapshot
from restow.model.wire import WireError
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.policy_section import read_policy
from restow.planning.descheduling.registry import ENTRY_POINTS, descheduler_plugins
from restow.planning.plan import Plan
from restow.planning.plan_request import PlanRequest


def idle(snapshot: Snapshot, request: PlanRequest) -> Plan:
    return Plan(strategy="idle")


IDLE = Planner(name="Idle", point="balance", plan=idle, check=lambda arguments: None)


def found(value: str) -> list[EntryPoint]:
    return [EntryPoint(name="idle", value=value, group=ENTRY_POINTS)]


def test_plugin_of_an_entry_point_is_enabled_by_its_name() -> None:
    section = {"profiles": [{"name": "a", "plugins": {"balance": {"enabled": ["Idle"]}}}]}
    [profile] = read_policy(section, descheduler_plugins(found(f"{__name__}:IDLE"))).profiles
    assert profile.planners == (IDLE,)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (f"{__name__}:idle", "is a function, not a Planner, Remover or Evictor"),
        (f"{__name__}:nothing", "cannot be loaded"),
    ],
    ids=["not a plugin", "not there"],
)
def test_unusable_entry_point_is_reported(value: str, told: str) -> None:
    with pytest.raises(WireError, match=told):
        descheduler_plugins(found(value))
