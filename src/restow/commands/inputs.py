"""Reads what commands need from a live cluster or a snapshot: the configuration, the objects, and measured usage."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from restow.commands.stderr import print_note

if TYPE_CHECKING:
    from restow.model.inventory import Inventory
    from restow.model.kinds import Kind
    from restow.planning.usage_samples import UsageSamples
    from restow.running.configuration import Configuration
    from restow.snapshots.capture import ListProgress
    from restow.snapshots.offline import OfflineCluster


def read_live_configuration(kubeconfig: Path | None, namespace: str) -> Configuration:
    """The configuration that is installed in the cluster, else the defaults. Raises ConfigError, WireError and
    ApiError."""
    from restow.running.existing_installation import installed_configuration
    from restow.running.one_shot_client import with_client

    return asyncio.run(with_client(kubeconfig, lambda client: installed_configuration(client, namespace)))


def snapshot_configuration(inventory: Inventory, namespace: str) -> Configuration:
    """The configuration that a snapshot contains, else the defaults. Raises WireError."""
    from restow.running.configuration import Configuration
    from restow.running.existing_installation import configuration_in_snapshot

    return configuration_in_snapshot(inventory, namespace) or Configuration()


def read_live_inventory(kubeconfig: Path | None, on_objects_read: ListProgress | None) -> Inventory:
    """Read all objects of the live cluster. Progress goes to `on_objects_read`, else to stderr. Raises ConfigError and
    CannotList."""
    from restow.running.one_shot_client import with_client
    from restow.snapshots.capture import capture_inventory

    report = on_objects_read or ReadProgress()
    return asyncio.run(with_client(kubeconfig, lambda client: capture_inventory(client, report, print_note)))


def usage_samples(
    cluster: OfflineCluster, configuration: Configuration, strategy: str, *, is_live: bool
) -> UsageSamples:
    """Measured usage of nodes and pods: from Prometheus if the strategy's arguments say so, else from metrics.k8s.io.

    Prometheus knows only what is measured now, so for a snapshot it is not queried. Raises WireError."""
    from restow.running.one_shot_run import query_prometheus
    from restow.snapshots import offline

    provider_and_queries = offline.prometheus_queries_of(configuration, strategy)
    if provider_and_queries is None:
        return cluster.usage_samples
    if is_live:
        return asyncio.run(query_prometheus(*provider_and_queries))
    if cluster.usage_samples.nodes:
        print_note("usage comes from the NodeMetrics in the snapshot; Prometheus is queried for live clusters only")
        return cluster.usage_samples
    reason = "the snapshot has no NodeMetrics, and Prometheus is queried for live clusters only"
    return msgspec.structs.replace(cluster.usage_samples, unavailable_reason=reason)


class ReadProgress:
    """Prints on stderr once a second how many objects have been read; nothing if reading takes less than a second."""

    def __init__(self) -> None:
        self._printed_at = time.monotonic()

    def __call__(self, kind: Kind[Any], number: int) -> None:
        if time.monotonic() - self._printed_at >= 1.0:
            self._printed_at = time.monotonic()
            print_note(f"reading {kind.plural}, {number} so far")
