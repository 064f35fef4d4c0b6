"""From a `Scenario` to documents: draw nodes and workloads, place the pods, write everything down.

One seed decides everything. Parts of documents are shared between them (a container list, a label map): encode or copy
before changing any.
"""

from __future__ import annotations

import msgspec
import numpy as np

from restow.model.objects import Document
from restow.sim.loop import EPOCH
from restow.sim.scenarios.document_writer import DocumentWriter
from restow.sim.scenarios.placement import place_workload, utilisation_targets
from restow.sim.scenarios.scenario_nodes import ScenarioNodes
from restow.sim.scenarios.workloads import Mix, Workload, draw_requests, draw_workloads, gpu_request


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to generate. Shares are between 0 and 1."""

    seed: int = 0
    nodes: int = 20
    pods: int = 200
    zones: int = 3
    namespaces: int = 4
    utilisation: float = 0.55  # of cpu, the mean over nodes that is aimed at
    skew: float = 0.5  # 0: all nodes alike, 1: some full, some empty
    gpu: float = 0.1  # of nodes
    batch: float = 0.05  # of nodes: dedicated and tainted
    pinned: float = 0.1  # of workloads: node selector or zone affinity
    apart: float = 0.1  # of workloads: no two pods on one node
    spread: float = 0.15  # of workloads: even over zones
    budgets: float = 0.4  # of workloads with several replicas
    daemon_sets: int = 2
    pending: int = 0  # pods that wait for room no single node has
    scheduler: str = "restow"
    start: float = EPOCH


def generate_documents(scenario: Scenario) -> list[Document]:
    """Every object of the cluster, owners before what they own."""
    rng = np.random.default_rng(scenario.seed)
    nodes = ScenarioNodes(scenario.nodes, scenario.zones, scenario.gpu, scenario.batch, rng)
    writer = DocumentWriter(nodes, scenario.scheduler, scenario.start, rng)
    writer.add_cluster(scenario.namespaces)
    for index in range(scenario.daemon_sets):
        _daemons(writer, nodes, index)
    target = utilisation_targets(len(nodes), scenario.utilisation, scenario.skew, rng)
    for workload in _workloads(scenario, nodes, rng):
        node_indexes = place_workload(nodes, workload, target, rng)
        if node_indexes:
            writer.add_workload(workload, node_indexes)
    for index in range(scenario.pending):
        writer.add_pending(_unplaceable_workload(nodes, index, rng))
    return writer.documents


def generate_snapshot(scenario: Scenario) -> Document:
    """The cluster as `kubectl get … -o json` would print it."""
    return {
        "apiVersion": "v1",
        "kind": "List",
        "metadata": {"resourceVersion": ""},
        "items": generate_documents(scenario),
    }


def _workloads(scenario: Scenario, nodes: ScenarioNodes, rng: np.random.Generator) -> list[Workload]:
    mix = Mix(
        pinned=scenario.pinned,
        apart=scenario.apart,
        spread=scenario.spread,
        budgets=scenario.budgets,
        gpu=scenario.gpu / 2 if (nodes.pool == "gpu").any() else 0.0,
        batch=scenario.batch if (nodes.pool == "batch").any() else 0.0,
    )
    ordinary = nodes.allocatable[0, nodes.pool != "gpu"].sum()
    mean = float(ordinary) * scenario.utilisation / max(scenario.pods, 1)
    return list(draw_workloads(scenario.pods, mean, scenario.namespaces, nodes.zones, mix, rng))


def _daemons(writer: DocumentWriter, nodes: ScenarioNodes, index: int) -> None:
    """A small agent on every node that has room for it; it tolerates everything."""
    request = draw_requests(100.0, [1], np.random.default_rng(index))[0]
    node_indexes = np.flatnonzero(nodes.fits(request))
    nodes.take(node_indexes, request)
    writer.add_daemon_set(f"agent-{index}", request, node_indexes.tolist())


def _unplaceable_workload(nodes: ScenarioNodes, index: int, rng: np.random.Generator) -> Workload:
    """A pod that no node has room for now, although an emptied one would: a reason to defragment."""
    gpu_nodes = np.flatnonzero(nodes.pool == "gpu")
    if gpu_nodes.size and index % 2 == 0:
        largest = int(nodes.free[3].max())
        most = int(nodes.allocatable[3].max())
        if largest < most:
            return _single(index, gpu_request(largest + 1), "gpu")
    general = np.flatnonzero(nodes.pool == "general")
    free = nodes.free[:, general].max(axis=1) if general.size else np.zeros(4, dtype=np.int64)
    request = np.array([int(free[0]) // 100 * 100 + 100, int(free[1]) // 2, 1, 0], dtype=np.int64)
    return _single(index, request, None)


def _single(index: int, request: np.typing.NDArray[np.int64], pool: str | None) -> Workload:
    return Workload(
        kind="ReplicaSet",
        namespace="team-00",
        name=f"waiting-{index}",
        replicas=1,
        request=request,
        pool=pool,
        priority="frontline",
    )
