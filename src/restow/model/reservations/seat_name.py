"""TODO"""

from __future__ import annotations

from typing import Self

import msgspec

from restow.model.object_key import Key
from restow.model.objects import (
    Placement,
)


class SeatName(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """Which seat: `index` of `task` of a reservation. Written namespace/name/task/index."""

    namespace: str
    reservation: str
    task: str
    index: int

    @classmethod
    def of(cls, key: Key, placement: Placement) -> Self:
        """The seat of a reservation that a placement is about."""
        return cls(*key, placement.task, placement.index)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read the written form; None if it is not one."""
        parts = text.split("/")
        if len(parts) != 4 or not (parts[3].isascii() and parts[3].isdigit()) or len(parts[3]) > 9:
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.reservation}/{self.task}/{self.index}"
