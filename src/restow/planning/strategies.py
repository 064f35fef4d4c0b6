"""The strategies by name, and the only way to run them: every plan is replayed before it is returned."""

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
from restow.planning.plan_request import PlanRequest, Strategy
from restow.planning.replay import replay_plan

STRATEGIES: Final[Mapping[str, Strategy]] = {
    "optimal": plan_optimal,
    "defragmentation": plan_defragmentation,
    "balance": plan_balance,
    "load-aware": plan_load_aware,
}
DEFAULT_STRATEGY: Final = "optimal"
STRATEGY_PLUGINS: Final[Mapping[str, str]] = {
    "defragmentation": DEFRAGMENTATION,
    "balance": BALANCE,
    "load-aware": LOAD_AWARE,
}
"""By strategy: the plugin whose arguments in `pluginConfig` the strategy reads. `optimal` is not among them: it reads
the fields of the request, which `restow plan` sets from `--objective`, `--shape`, `--max-moves`, `--time-limit`,
`--work-limit` and `--seed`. In the descheduler, the plugin Optimal sets them from its arguments."""


class InvalidPlan(Exception):
    """A strategy made a plan that its replay finds defects in: a bug of the strategy."""


def make_plan(name: str, snapshot: Snapshot, request: PlanRequest) -> Plan:
    """Run a strategy and replay its plan. Raises WireError for wrong arguments, InvalidPlan, KeyError for an unknown
    strategy."""
    started_at = request.clock()
    plan = STRATEGIES[name](snapshot, request)
    replayed = replay_plan(snapshot, plan, request)
    if not replayed.valid:
        raise InvalidPlan(f"{name}: {replayed.defects[0]}")
    return replace(plan, seconds=round(request.clock() - started_at, 3))
