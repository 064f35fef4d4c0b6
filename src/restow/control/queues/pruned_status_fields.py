"""What the API server does not keep of a queue's status, because another project's definition of Queue is installed.

Goes in: a status as it was written, and as the API server answered. Comes out: which fields came back as something
else, and whether a status is as it should be but for these, so that they are not written again with every pass. After
a while they are tried again: the definition may be another by then.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from restow.model.objects import QueueStatus

RETRY_AFTER: Final = 600.0
"""Seconds after which what was not kept is written again."""


class PrunedStatusFields:
    def __init__(self) -> None:
        self._fields: dict[str, tuple[frozenset[str], float]] = {}
        """By queue, and when that was found out."""

    def note_answer(self, queue: str, written: QueueStatus, answer: QueueStatus, now: float) -> list[str]:
        """The fields that were not kept, if that is news."""
        fields = frozenset(_differing(written, answer))
        known, _ = self._fields.pop(queue, (frozenset(), 0.0))
        if fields:
            self._fields[queue] = fields, now
        return sorted(fields) if not fields <= known else []

    def is_up_to_date(self, queue: str, wanted: QueueStatus, shown: QueueStatus, now: float) -> bool:
        """Whether a queue shows what it should, as far as that is kept."""
        if wanted == shown:
            return True
        fields, since = self._fields.get(queue, (frozenset(), 0.0))
        return now - since < RETRY_AFTER and fields >= _differing(wanted, shown)

    def forget_all_but(self, queues: Collection[str]) -> None:
        self._fields = {name: found for name, found in self._fields.items() if name in queues}


def _differing(one: QueueStatus, other: QueueStatus) -> set[str]:
    """The fields that are not the same, as they are written."""
    fields = msgspec.structs.fields(QueueStatus)
    return {field.encode_name for field in fields if getattr(one, field.name) != getattr(other, field.name)}
