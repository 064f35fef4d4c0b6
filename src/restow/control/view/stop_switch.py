"""The stop switch as last seen: whether, and why, nothing is evicted."""

from __future__ import annotations

from restow.client.informer import Handler
from restow.client.subscriptions import Subscriptions
from restow.migration.stop_switch import STOP_NAME, stop_reason
from restow.model.kinds import CONFIG_MAP
from restow.model.objects import ConfigMap


class StopSwitch:
    """`handlers` are told of every change."""

    def __init__(self, reader: Subscriptions, namespace: str, *handlers: Handler[ConfigMap]) -> None:
        self._found = reader.subscribe(CONFIG_MAP, *handlers, namespace=namespace, fields=f"metadata.name={STOP_NAME}")

    def stopped(self) -> str | None:
        """Why nothing is evicted; None while something may be."""
        return stop_reason(next(iter(self._found), None))
