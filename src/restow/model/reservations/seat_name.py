"""The name of a seat: which index of which task of which reservation.

The same text names a seat in the annotation of the pod that consumed it, as the UID of its reserved pod, and in logs.
"""

from __future__ import annotations

from typing import Self

import msgspec

from restow.model.object_key import Key
from restow.model.objects import (
    Placement,
)


class SeatName(msgspec.Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """`index` of `task` of a reservation. Written namespace/name/task/index; sorted by reservation, task and index."""

    namespace: str
    reservation: str
    task: str
    index: int

    @classmethod
    def of(cls, key: Key, placement: Placement) -> Self:
        """The name of the seat that a placement of this reservation describes."""
        return cls(*key, placement.task, placement.index)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the written form; None if the text does not have that form.

        The text comes from an annotation that any user can write, so an index of more than nine digits is refused.
        """
        parts = text.split("/")
        if len(parts) != 4 or not (parts[3].isascii() and parts[3].isdigit()) or len(parts[3]) > 9:
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]))

    def __str__(self) -> str:
        return f"{self.namespace}/{self.reservation}/{self.task}/{self.index}"
