"""The stop switch as last seen: whether evictions are stopped, and why."""

from __future__ import annotations

from restow.client.informer_store import Handler
from restow.client.subscriptions import Subscriptions
from restow.migration.stop_switch import STOP_NAME, stop_reason
from restow.model.kinds import CONFIG_MAP
from restow.model.objects import ConfigMap


class StopSwitch:
    """`handlers` are called with every change of the switch."""

    def __init__(self, subscriptions: Subscriptions, namespace: str, *handlers: Handler[ConfigMap]) -> None:
        self._config_maps = subscriptions.subscribe(
            CONFIG_MAP, *handlers, namespace=namespace, fields=f"metadata.name={STOP_NAME}"
        )

    def stop_reason(self) -> str | None:
        """Why nothing may be evicted; None while evictions are allowed."""
        return stop_reason(next(iter(self._config_maps), None))
