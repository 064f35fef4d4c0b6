"""The fields of a queue's status that the API server prunes, because another project's CRD of Queue is installed.

Goes in: a status as it was written, and as the API server answered. Comes out: the fields that came back different, and
whether a status is up to date apart from these: otherwise they would be written again in every pass. After a while they
are tried again, because another CRD may be installed by then.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from restow.model.objects import QueueStatus

RETRY_AFTER: Final = 600.0
"""Seconds after which a pruned field is written again."""


class PrunedStatusFields:
    def __init__(self) -> None:
        self._fields: dict[str, tuple[frozenset[str], float]] = {}
        """By queue: the pruned fields, and when that was found."""

    def note_answer(self, queue: str, written: QueueStatus, answer: QueueStatus, now: float) -> list[str]:
        """The fields that were pruned, if that was not known before; else an empty list."""
        fields = frozenset(_differing_fields(written, answer))
        known, _ = self._fields.pop(queue, (frozenset(), 0.0))
        if fields:
            self._fields[queue] = fields, now
        return sorted(fields) if not fields <= known else []

    def is_up_to_date(self, queue: str, desired: QueueStatus, shown: QueueStatus, now: float) -> bool:
        """Whether a queue shows the desired status, apart from pruned fields."""
        if desired == shown:
            return True
        fields, since = self._fields.get(queue, (frozenset(), 0.0))
        return now - since < RETRY_AFTER and fields >= _differing_fields(desired, shown)

    def forget_all_but(self, queues: Collection[str]) -> None:
        """Forget the queues that are gone."""
        self._fields = {name: fields for name, fields in self._fields.items() if name in queues}


def _differing_fields(first: QueueStatus, second: QueueStatus) -> set[str]:
    """By their names in YAML."""
    fields = msgspec.structs.fields(QueueStatus)
    return {field.encode_name for field in fields if getattr(first, field.name) != getattr(second, field.name)}
