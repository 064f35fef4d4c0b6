"""Realistic fragmented clusters from a seed.

In goes a `Scenario` (how many nodes and pods, how skewed, how constrained), out come Kubernetes documents: nodes,
workloads with their pods placed, budgets, priorities, volumes. Every placement satisfies every hard constraint it
carries and no node is over-committed, so whatever a planner improves was really improvable. The documents are a
snapshot file (`snapshot`) or are created in an API server (`load`).
"""

from restow.sim.scenarios.generate import Scenario, documents, snapshot
from restow.sim.scenarios.load import load

__all__ = ["Scenario", "documents", "load", "snapshot"]
