"""What `restow install` left in a cluster: the configuration by which Restow goes there, living or written down."""

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
from restow.running.installing import CONFIGURATION_KEY, Found, look


class Before(msgspec.Struct, frozen=True):
    """What a cluster has before something is installed there."""

    found: Found
    configuration: str | None
    """That of the last installation, as it is written there."""


async def look_before_install(kubeconfig: Path | None, namespace: str) -> Before | str:
    """What a cluster has already that installing must mind; a sentence if nobody could look."""
    try:
        config = find_config(kubeconfig)
        async with KubernetesApi(config, clock=SystemClock()) as api:
            client = Client(api)
            kept = await _installed(client, namespace)
            return Before(await look(client), (kept.data or {}).get(CONFIGURATION_KEY) if kept else None)
    except (ConfigError, ApiError) as problem:
        return str(problem)


async def installed_configuration(client: Client, namespace: str) -> Configuration:
    """What `restow install` put there; the defaults where there is none, or where it is not ours to see."""
    found = await _installed(client, namespace)
    return (found and _configuration(found)) or Configuration()


async def installed_document(client: Client, namespace: str) -> list[dict[str, Any]]:
    """The same as it is kept there, for a snapshot file; nothing where there is none."""
    found = await _installed(client, namespace)
    if found is None:
        return []
    metadata = {"name": INSTALLED, "namespace": namespace}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(found.data or {})}]


def configuration_in(inventory: Inventory, namespace: str) -> Configuration | None:
    """The same in a snapshot file."""
    name = (namespace, INSTALLED)
    found = (one for one in inventory.of(CONFIG_MAP) if (one.metadata.namespace, one.metadata.name) == name)
    return next((_configuration(one) for one in found), None)


async def _installed(client: Client, namespace: str) -> ConfigMap | None:
    try:
        return await client.get(CONFIG_MAP, INSTALLED, namespace)
    except (NotFound, Forbidden):
        return None


def _configuration(found: ConfigMap) -> Configuration:
    written = (found.data or {}).get(CONFIGURATION_KEY, "")
    name = f"ConfigMap {found.metadata.namespace}/{INSTALLED} {CONFIGURATION_KEY}"
    return read_configuration(written.encode(), name)
