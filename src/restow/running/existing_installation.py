"""Reads what a cluster or a snapshot file has installed: the configuration, and what conflicts with ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import ConfigError, KubernetesApi, find_config
from restow.client.verbs import Client
from restow.defaults import NAME as INSTALLED
from restow.model.inventory import Inventory
from restow.model.kinds import CONFIG_MAP
from restow.model.objects import ConfigMap
from restow.ports import ApiError, Forbidden, NotFound
from restow.running.configuration import Configuration, read_configuration
from restow.running.install_manifest import CONFIGURATION_KEY, ForeignInstallation, inspect_cluster


class ExistingInstallation(msgspec.Struct, frozen=True):
    """What a cluster has before `restow install`."""

    foreign: ForeignInstallation
    configuration: str | None
    """The text of the installed configuration; None if there is none."""


async def inspect_before_install(kubeconfig: Path | None, namespace: str) -> ExistingInstallation | str:
    """Conflicts and the installed configuration; a sentence with the error if the cluster cannot be read."""
    try:
        config = find_config(kubeconfig)
        async with KubernetesApi(config, clock=SystemClock()) as api:
            client = Client(api)
            installed = await _installed_config_map(client, namespace)
            return ExistingInstallation(
                await inspect_cluster(client), (installed.data or {}).get(CONFIGURATION_KEY) if installed else None
            )
    except (ConfigError, ApiError) as problem:
        return str(problem)


async def installed_configuration(client: Client, namespace: str) -> Configuration:
    """The installed configuration; the defaults if there is none, or if we may not read it."""
    config_map = await _installed_config_map(client, namespace)
    return (config_map and _parse(config_map)) or Configuration()


async def installed_configuration_documents(client: Client, namespace: str) -> list[dict[str, Any]]:
    """The ConfigMap of the installed configuration, for a snapshot file; empty if there is none."""
    config_map = await _installed_config_map(client, namespace)
    if config_map is None:
        return []
    metadata = {"name": INSTALLED, "namespace": namespace}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(config_map.data or {})}]


def configuration_in_snapshot(inventory: Inventory, namespace: str) -> Configuration | None:
    """The installed configuration as a snapshot file has it; None if it has none."""
    for item in inventory.of(CONFIG_MAP):
        if (item.metadata.namespace, item.metadata.name) == (namespace, INSTALLED):
            return _parse(item)
    return None


async def _installed_config_map(client: Client, namespace: str) -> ConfigMap | None:
    try:
        return await client.get(CONFIG_MAP, INSTALLED, namespace)
    except (NotFound, Forbidden):
        return None


def _parse(config_map: ConfigMap) -> Configuration:
    text = (config_map.data or {}).get(CONFIGURATION_KEY, "")
    name = f"ConfigMap {config_map.metadata.namespace}/{INSTALLED} {CONFIGURATION_KEY}"
    return read_configuration(text.encode(), name)
