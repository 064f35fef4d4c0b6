"""Namespaces: the labels that namespace selectors read.

A namespace that was never shown has the label of its name only, because every API server sets that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from restow.model.cluster.seen_versions import SeenVersions, version_number
from restow.model.cluster.undo_log import UndoLog
from restow.model.objects import Namespace

NAME_LABEL = "kubernetes.io/metadata.name"


class Namespaces:
    __slots__ = ("_labels", "_listeners", "_log", "_versions")

    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._versions = SeenVersions(log)
        self._labels: dict[str, Mapping[str, str]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def on_change(self, changed: Callable[[str], None]) -> None:
        """Have a function called with the name of every namespace that gets other labels."""
        self._listeners.append(changed)

    def labels(self, name: str) -> Mapping[str, str]:
        shown = self._labels.get(name)
        return {NAME_LABEL: name} if shown is None else shown

    def apply(self, namespace: Namespace) -> None:
        if self._is_news(namespace, gone=False):
            self._set(namespace.metadata.name, namespace.metadata.labels or {})

    def remove(self, namespace: Namespace) -> None:
        if self._is_news(namespace, gone=True):
            self._set(namespace.metadata.name, None)

    def _set(self, name: str, labels: Mapping[str, str] | None) -> None:
        old = self._labels.get(name)
        if old == labels:
            return
        self._log.record(self._set, name, old)
        if labels is None:
            del self._labels[name]
        else:
            self._labels[name] = labels
        for changed in self._listeners:
            changed(name)

    def _is_news(self, namespace: Namespace, *, gone: bool) -> bool:
        version = version_number(namespace.metadata.resource_version)
        return self._versions.is_news(namespace.metadata.name, version, gone=gone)
