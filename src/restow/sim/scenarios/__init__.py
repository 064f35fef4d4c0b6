"""Realistic fragmented clusters from a seed.

In: a `Scenario` (how many nodes and pods, how skewed, how constrained). Out: Kubernetes documents: nodes, workloads
with their pods placed, budgets, priorities, volumes. Every placement satisfies every hard constraint it
carries and no node is over-committed, so whatever a planner improves was really improvable. The documents are a
snapshot file (`generate_snapshot`) or are created in an API server (`load_documents`).
"""

from restow.sim.scenarios.loader import load_documents
from restow.sim.scenarios.scenario import Scenario, generate_documents, generate_snapshot

__all__ = ["Scenario", "generate_documents", "generate_snapshot", "load_documents"]
