"""Plans of the strategy Defragmentation, and pods for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from restow.model.objects import Node, Pod
from restow.model.snapshot import Snapshot
from restow.planning.plan import Plan
from restow.planning.strategies import make_plan
from tests.model.cluster.builders import pod
from tests.planning.clusters import owner, plan_request, snapshot_of


def bare_pod(name: str, cpu: str, on: str) -> Pod:
    """A pod that stays: it has no controller to create it again."""
    return pod(name, {"cpu": cpu}, on=on, phase="Running")


def pod_with_requests(requests: dict[str, str], name: str, on: str) -> Pod:
    return pod(name, requests, on=on, owner=owner("app"), phase="Running")


def defragmentation_plan(nodes: Sequence[Node], pods: Sequence[Pod], **fields: Any) -> Plan:
    return defragmentation_plan_of(snapshot_of(nodes, pods), **fields)


def defragmentation_plan_of(
    snapshot: Snapshot, *, max_moves: int = 50, last_migrations: dict[str, float] | None = None, **arguments: Any
) -> Plan:
    request = plan_request(snapshot, arguments, max_moves=max_moves, last_migrations=last_migrations or {})
    return make_plan("defragmentation", snapshot, request)
