"""What a fresh cluster holds: its namespaces and the priority classes of the system."""

from __future__ import annotations

from restow.adapters.memory import writes
from restow.adapters.memory.state import State
from restow.model.objects import Document

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def create_initial_objects(state: State) -> None:
    for name in NAMESPACES:
        _insert(state, "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for name, value in PRIORITIES.items():
        _insert(
            state,
            "priorityclasses.scheduling.k8s.io",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "description": "Used for system critical pods that must not be moved from their current node.",
                "preemptionPolicy": "PreemptLowerPriority",
            },
        )


def _insert(state: State, collection: str, document: Document) -> None:
    served = state.catalog.of_collection(collection)
    writes.insert_object(writes.Write(state, served, manager="", dry_run=False, validation="Ignore"), document, None)
