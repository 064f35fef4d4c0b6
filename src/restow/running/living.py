"""A cluster that lives, asked a question or told something: for commands that are over soon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, find_config
from restow.client.verbs import Client
from restow.migration.stop import STOP_NAME
from restow.model.kinds import CONFIG_MAP
from restow.model.objects import ConfigMap
from restow.ports import NotFound
from restow.running.reaching import find_namespace

T = TypeVar("T")


async def ask(kubeconfig: Path | None, question: Callable[[Client], Awaitable[T]]) -> T:
    """Put a question to the cluster that a kubeconfig names, or that we run in. Raises ConfigError, ApiError."""
    async with KubernetesApi(find_config(kubeconfig), clock=SystemClock()) as api:
        return await question(Client(api))


async def turn_stop_switch(kubeconfig: Path | None, namespace: str, data: dict[str, str | None]) -> ConfigMap:
    """Write the stop switch; returns it as it is now. Raises ConfigError, ApiError and CannotRun."""
    async with KubernetesApi(find_config(kubeconfig), clock=SystemClock()) as api:
        client = Client(api, manager="restow")
        try:
            return await client.patch(CONFIG_MAP, STOP_NAME, {"data": data}, namespace)
        except NotFound:
            await find_namespace(client, namespace)
            said = {key: value for key, value in data.items() if value is not None}
            document = {"metadata": {"name": STOP_NAME, "namespace": namespace}, "data": said}
            return await client.create(CONFIG_MAP, document)
