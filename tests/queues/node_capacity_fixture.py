"""Small fleets and queues for tests, written as people would say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from restow.model.objects import (
    Guarantee,
    GuaranteePercentage,
    ObjectMeta,
    Queue,
    QueueReservation,
    QueueSpec,
    QueueStatus,
)
from restow.model.resources import parse_amounts
from restow.queues.node_capacity import CapacityOfNodes, QueueUsage

RESOURCES = ("cpu", "memory")


def node_spec(
    cpu: int = 8, memory: int = 32, *, taken: int = 0, own: Mapping[str, int] | None = None, **says: Any
) -> Any:
    """A node: cpu in cores, memory in GiB; `taken` cores by others and `own` cores by queues, 4 GiB to a core."""
    return {"cpu": cpu, "memory": memory, "taken": taken, "own": own or {}, **says}


def node_capacity(nodes: Mapping[str, Any]) -> CapacityOfNodes:
    """The capacity of nodes, by name."""
    names = tuple(sorted(nodes))
    offered = _cells([(nodes[name]["cpu"], nodes[name]["memory"]) for name in names])
    gone = [nodes[name]["taken"] + sum(nodes[name]["own"].values()) for name in names]
    queues = sorted({queue for name in names for queue in nodes[name]["own"]})
    return CapacityOfNodes(
        names=names,
        resources=RESOURCES,
        allocatable=offered,
        idle=np.maximum(offered - _cells([(cores, 4 * cores) for cores in gone]), 0),
        pinned=np.zeros_like(offered),
        schedulable=np.array([not nodes[name].get("cordoned") for name in names], np.bool_),
        untainted=np.array([not nodes[name].get("tainted") for name in names], np.bool_),
        usage={queue: _use(queue, [nodes[name]["own"].get(queue, 0) for name in names]) for queue in queues},
        reserved_nodes={
            "other": np.array([place for place, name in enumerate(names) if nodes[name].get("held")], np.intp)
        },
    )


def queue(
    name: str = "q1",
    *,
    nodes: tuple[str, ...] = (),
    state: str | None = None,
    accepted: dict[str, Any] | None = None,
    **spec: Any,
) -> Queue:
    """A queue; guarantees as in YAML, `accepted` the one that was, `nodes` those its status shows as locked."""
    return Queue(
        metadata=ObjectMeta(name=name),
        spec=QueueSpec(guarantee=_guarantee(spec.pop("guarantee", None)), **spec),
        status=QueueStatus(
            state=state, reservation=QueueReservation(nodes=list(nodes)), accepted_guarantee=_guarantee(accepted)
        ),
    )


def _guarantee(written: dict[str, Any] | None) -> Guarantee | None:
    if not written:
        return None
    percentage = written.get("percentage")
    return Guarantee(
        policy=written.get("policy"),
        percentage=percentage and GuaranteePercentage(**percentage),
        resource=written.get("resource"),
    )


def vector(**written: str) -> dict[str, int]:
    return parse_amounts(dict(written))


def _cells(rows: list[tuple[int, int]]) -> Any:
    return np.array([[cpu * 1000, memory * 2**30] for cpu, memory in rows], np.int64).T.reshape(2, len(rows))


def _use(name: str, cores: list[int]) -> QueueUsage:
    places = [place for place, number in enumerate(cores) if number]
    return QueueUsage(np.array(places, np.intp), _cells([(cores[place], 4 * cores[place]) for place in places]))
