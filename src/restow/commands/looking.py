"""What is read of a cluster, living or written down, in order to answer questions about it: the configuration that
holds there, what exists, and what is really used.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from restow.commands.notes import note

if TYPE_CHECKING:
    from restow.model.inventory import Inventory
    from restow.model.kinds import Kind
    from restow.planning.measured import Measured
    from restow.running.configuration import Configuration
    from restow.snapshots.capture import Heed
    from restow.snapshots.offline import Cluster


def living_configuration(kubeconfig: Path | None, namespace: str) -> Configuration:
    """What Restow goes by there, if it is installed. Raises ConfigError, WireError and ApiError."""
    from restow.running.installed import installed_configuration
    from restow.running.living import ask

    return asyncio.run(ask(kubeconfig, lambda client: installed_configuration(client, namespace)))


def kept_configuration(inventory: Inventory, namespace: str) -> Configuration:
    """What Restow goes by in a cluster that was written down; the defaults where the file does not say. Raises
    WireError."""
    from restow.running.configuration import Configuration
    from restow.running.installed import configuration_in

    return configuration_in(inventory, namespace) or Configuration()


def living_inventory(kubeconfig: Path | None, heed: Heed | None) -> Inventory:
    """The cluster as it is now; `heed` hears how far reading is, else stderr. Raises ConfigError and CannotList."""
    from restow.running.living import ask
    from restow.snapshots.capture import inventory

    return asyncio.run(ask(kubeconfig, lambda client: inventory(client, heed or HowFar(), note)))


def measured_use(cluster: Cluster, sections: Configuration, strategy: str, *, living: bool) -> Measured:
    """What nodes and pods really use: as Prometheus tells where a strategy's arguments ask it, which knows nothing of a
    cluster that was written down. Raises WireError."""
    from restow.running.acting import ask_prometheus
    from restow.snapshots import offline

    asked = offline.prometheus_of(sections, strategy)
    if asked is None:
        return cluster.measured
    if living:
        return asyncio.run(ask_prometheus(*asked))
    if cluster.measured.nodes:
        note("what is used is what metrics.k8s.io measured when the snapshot was made; Prometheus is not asked")
        return cluster.measured
    told = "the snapshot has no NodeMetrics, and Prometheus is asked about living clusters only"
    return msgspec.structs.replace(cluster.measured, trouble=told)


class HowFar:
    """Tells on stderr how far reading a cluster is, once a second: nothing if it takes less."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    def __call__(self, kind: Kind[Any], number: int) -> None:
        if time.monotonic() - self._told >= 1.0:
            self._told = time.monotonic()
            note(f"reading {kind.plural}, {number} so far")
