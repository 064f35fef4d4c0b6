"""The strategies by name, and the one way to ask them: every plan is replayed before anyone sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from restow.model.snapshot import Snapshot
from restow.planning.arguments import BALANCE, DEFRAGMENTATION, LOAD_AWARE
from restow.planning.balance import plan_balance
from restow.planning.defragmentation import plan_defragmentation
from restow.planning.load_aware import plan_load_aware
from restow.planning.optimal.strategy import plan_optimal
from restow.planning.plan import Plan
from restow.planning.replay import replay_plan
from restow.planning.plan_request import PlanRequest, Strategy

STRATEGIES: Final[Mapping[str, Strategy]] = {
    "optimal": plan_optimal,
    "defragmentation": plan_defragmentation,
    "balance": plan_balance,
    "load-aware": plan_load_aware,
}
DEFAULT_STRATEGY: Final = "optimal"
STRATEGY_PLUGINS: Final[Mapping[str, str]] = {"defragmentation": DEFRAGMENTATION, "balance": BALANCE, "load-aware": LOAD_AWARE}
"""Under which name the arguments of a strategy are in `pluginConfig`."""


class InvalidPlan(Exception):
    """A strategy broke its promise: its plan does not survive the replay, so nobody gets it."""


def make_plan(name: str, snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Ask a strategy. Raises WireError for wrong arguments, InvalidPlan, KeyError for an unknown strategy."""
    began = request.clock()
    plan = STRATEGIES[name](snapshot, request)
    replayed = replay_plan(snapshot, plan, request)
    if not replayed.valid:
        raise InvalidPlan(f"{name}: {replayed.defects[0]}")
    return replace(plan, seconds=round(request.clock() - began, 3))
