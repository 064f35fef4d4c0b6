"""A connection to a cluster for the time of one request, for commands that end soon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, find_config
from restow.client.verbs import Client
from restow.migration.stop_switch import STOP_NAME
from restow.model.kinds import CONFIG_MAP
from restow.model.objects import ConfigMap
from restow.ports import NotFound
from restow.running.preflight import ensure_namespace

T = TypeVar("T")


async def with_client(kubeconfig: Path | None, use: Callable[[Client], Awaitable[T]]) -> T:
    """Call `use` with a client of the cluster that a kubeconfig names; without one, as kubectl would choose. Raises
    ConfigError and ApiError."""
    async with KubernetesApi(find_config(kubeconfig), clock=SystemClock()) as api:
        return await use(Client(api))


async def write_stop_switch(kubeconfig: Path | None, namespace: str, data: dict[str, str | None]) -> ConfigMap:
    """Patch the ConfigMap of the stop switch, or create it; returns it. Raises ConfigError, ApiError and CannotRun."""
    async with KubernetesApi(find_config(kubeconfig), clock=SystemClock()) as api:
        client = Client(api, manager="restow")
        try:
            return await client.patch(CONFIG_MAP, STOP_NAME, {"data": data}, namespace)
        except NotFound:
            await ensure_namespace(client, namespace)
            present = {key: value for key, value in data.items() if value is not None}
            document = {"metadata": {"name": STOP_NAME, "namespace": namespace}, "data": present}
            return await client.create(CONFIG_MAP, document)
