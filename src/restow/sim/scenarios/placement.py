"""Where the pods of a generated workload sit: scattered on purpose, within every hard constraint.

Each node has a target share of its capacity, drawn once; pods go to random nodes still under their targets, and to any
node with room when none is. So some nodes end full, many half empty, a few nearly idle: a fragmented cluster.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from restow.sim.scenarios.scenario_nodes import Ints, Mask, ScenarioNodes
from restow.sim.scenarios.workloads import Workload


def utilisation_targets(
    size: int, utilisation: float, skew: float, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Per node the share of cpu to be requested: mean `utilisation`, from even (skew 0) to extreme (skew 1)."""
    mean = min(max(utilisation, 0.01), 0.99)
    if skew <= 0:
        return np.full(size, mean)
    spread = 20.0 ** (1.0 - 2.0 * min(skew, 1.0))
    return rng.beta(mean * spread * 2, (1 - mean) * spread * 2, size=size)


def eligible_nodes(nodes: ScenarioNodes, workload: Workload) -> Mask:
    """Nodes that the workload's selector, affinity and tolerations allow."""
    return nodes.in_pool(workload.pool or "general") & spread_domain_nodes(nodes, workload)


def spread_domain_nodes(nodes: ScenarioNodes, workload: Workload) -> Mask:
    """Nodes that selector and affinity allow, whatever their taints: these count as spread domains."""
    mask: Mask = np.ones(len(nodes), dtype=np.bool_)
    if workload.pool:
        mask &= nodes.in_pool(workload.pool)
    if workload.ssd:
        mask &= nodes.ssd
    if workload.zones:
        mask &= np.isin(nodes.zone, workload.zones)
    return mask


def place_workload(
    nodes: ScenarioNodes, workload: Workload, target: npt.NDArray[np.float64], rng: np.random.Generator
) -> list[int]:
    """The nodes of the workload's replicas, taken from the nodes; fewer than asked when there is no more room."""
    allowed = eligible_nodes(nodes, workload)
    if workload.spread:
        return _place_evenly(nodes, workload, allowed, rng)
    chosen_nodes: list[int] = []
    while len(chosen_nodes) < workload.replicas:
        candidates = _candidates(nodes, workload, allowed, target)
        if not candidates.size:
            break
        chosen = rng.permutation(candidates)[: workload.replicas - len(chosen_nodes)]
        nodes.take(chosen, workload.request)
        chosen_nodes.extend(chosen.tolist())
        if workload.apart:
            break
    return chosen_nodes


def _candidates(nodes: ScenarioNodes, workload: Workload, allowed: Mask, target: npt.NDArray[np.float64]) -> Ints:
    room = allowed & nodes.fits(workload.request)
    used = nodes.allocatable[0] - nodes.free[0] + workload.request[0]
    under = np.flatnonzero(room & (used <= target * nodes.allocatable[0]))
    enough = workload.replicas if workload.apart else 1
    return under if under.size >= enough else np.flatnonzero(room)


def _place_evenly(nodes: ScenarioNodes, workload: Workload, allowed: Mask, rng: np.random.Generator) -> list[int]:
    """One pod per zone and round, so that zones differ by one at most; a zone without room ends the placing."""
    zones = sorted(set(nodes.zone[spread_domain_nodes(nodes, workload)].tolist()))
    chosen_nodes: list[int] = []
    while len(chosen_nodes) < workload.replicas and zones:
        before = len(chosen_nodes)
        for zone in zones[: workload.replicas - len(chosen_nodes)]:
            room = np.flatnonzero(allowed & nodes.fits(workload.request) & (nodes.zone == zone))
            if room.size:
                chosen = rng.choice(room, size=1)
                nodes.take(chosen, workload.request)
                chosen_nodes.extend(chosen.tolist())
        if len(chosen_nodes) - before < len(zones):
            break
    return chosen_nodes
