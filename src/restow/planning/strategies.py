"""The strategies by name, and the one way to ask them: every plan is replayed before anyone sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from restow.model.cluster import Snapshot
from restow.planning.arguments import BALANCE, DEFRAGMENTATION, LOAD_AWARE
from restow.planning.balance import balance
from restow.planning.defragmentation import defragmentation
from restow.planning.load_aware import load_aware
from restow.planning.optimal.strategy import optimal
from restow.planning.plan import Plan
from restow.planning.replay import replay
from restow.planning.request import Request, Strategy

STRATEGIES: Final[Mapping[str, Strategy]] = {
    "optimal": optimal,
    "defragmentation": defragmentation,
    "balance": balance,
    "load-aware": load_aware,
}
DEFAULT: Final = "optimal"
PLUGINS: Final[Mapping[str, str]] = {"defragmentation": DEFRAGMENTATION, "balance": BALANCE, "load-aware": LOAD_AWARE}
"""Under which name the arguments of a strategy are in `pluginConfig`."""


class InvalidPlan(Exception):
    """A strategy broke its promise: its plan does not survive the replay, so nobody gets it."""


def make_plan(name: str, snapshot: Snapshot, request: Request) -> Plan:
    """Ask a strategy. Raises WireError for wrong arguments, InvalidPlan, KeyError for an unknown strategy."""
    began = request.clock()
    plan = STRATEGIES[name](snapshot, request)
    replayed = replay(snapshot, plan, request)
    if not replayed.valid:
        raise InvalidPlan(f"{name}: {replayed.defects[0]}")
    return replace(plan, seconds=round(request.clock() - began, 3))
