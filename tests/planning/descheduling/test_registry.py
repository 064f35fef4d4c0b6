"""Plugins of others, found through entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from restow.model.cluster import Snapshot
from restow.model.wire import WireError
from restow.planning.descheduling import registry
from restow.planning.descheduling.framework import Planner
from restow.planning.descheduling.policy import read_policy
from restow.planning.plan import Plan
from restow.planning.request import Request


def idle(snapshot: Snapshot, request: Request) -> Plan:
    return Plan(strategy="idle")


IDLE = Planner(name="Idle", point="balance", plan=idle, check=lambda arguments: None)


def found(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint(name="idle", value=value, group=registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else [])


def test_a_plugin_of_others_is_enabled_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, f"{__name__}:IDLE")
    section = {"profiles": [{"name": "a", "plugins": {"balance": {"enabled": ["Idle"]}}}]}
    [profile] = read_policy(section, registry.installed()).profiles
    assert profile.planners == (IDLE,)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (f"{__name__}:idle", "is a function, not a Planner, Remover or Evictor"),
        (f"{__name__}:nothing", "cannot be loaded"),
    ],
    ids=["not a plugin", "not there"],
)
def test_what_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch, value: str, told: str) -> None:
    found(monkeypatch, value)
    with pytest.raises(WireError, match=told):
        registry.installed()
