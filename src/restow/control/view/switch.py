"""The stop switch as last seen: whether, and why, nothing is evicted."""

from __future__ import annotations

from restow.client.informer import Handler
from restow.client.reader import Reader
from restow.migration.stop import STOP_NAME, stopped
from restow.model.kinds import CONFIG_MAP
from restow.model.objects import ConfigMap


class StopSwitch:
    """`handlers` are told of every change."""

    def __init__(self, reader: Reader, namespace: str, *handlers: Handler[ConfigMap]) -> None:
        self._found = reader.read(CONFIG_MAP, *handlers, namespace=namespace, fields=f"metadata.name={STOP_NAME}")

    def stopped(self) -> str | None:
        """Why nothing is evicted; None while something may be."""
        return stopped(next(iter(self._found), None))
