"""What one API server is made of: its clock and its randomness, its store, and the table of what it serves."""

from __future__ import annotations

import random

from restow.adapters.memory.resources import Catalog, ResourceType
from restow.adapters.memory.settings import ServerSettings
from restow.adapters.memory.store import Collection, Store, Stored
from restow.model.objects import Document
from restow.model.times import format_time
from restow.ports import Clock

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no words appear
_SUFFIX_LENGTH = 5
_LONGEST_BASE = 63 - _SUFFIX_LENGTH


class State:
    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        store: Store,
        catalog: Catalog,
        settings: ServerSettings,
    ) -> None:
        self.track_fields = settings.track_fields
        self.protect_volumes = settings.protect_volumes
        self.clock = clock
        self.rng = rng
        self.store = store
        self.catalog = catalog
        self._second = -1
        self._stamp = ""

    def collection(self, served: ResourceType) -> Collection:
        return self.store.collections[served.collection]

    def builtin(self, plural: str, group: str = "") -> Collection:
        return self.store.collections[f"{plural}.{group}" if group else plural]

    def find(self, collection: str, namespace: str, name: str) -> Stored | None:
        return self.store.collections[collection].get(namespace, name)

    def stamp(self) -> str:
        """Now, as timestamps are written."""
        second = int(self.clock.now() // 1)
        if second != self._second:
            self._second, self._stamp = second, format_time(second)
        return self._stamp

    def new_uid(self) -> str:
        """A version 4 UUID."""
        bits = self.rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48) | (0x4000 << 64) | (0x8000 << 48)
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def generated_name(self, base: str) -> str:
        suffix = "".join(self.rng.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
        return base[:_LONGEST_BASE] + suffix


def set_condition(status: Document, condition: Document, now: str) -> None:
    """Set a condition by its type, in place; the transition time moves only when the status does."""
    conditions = status.setdefault("conditions", [])
    for number, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            same = present.get("status") == condition["status"]
            since = present.get("lastTransitionTime", now) if same else now
            conditions[number] = {**condition, "lastTransitionTime": since}
            return
    conditions.append({**condition, "lastTransitionTime": now})
