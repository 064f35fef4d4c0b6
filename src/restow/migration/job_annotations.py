"""Job annotations: what people and plans write on jobs, and the integers among it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from restow.model.objects import PodMigrationJob

PLAN_ANNOTATION = "restow.sh/plan"
PRIORITY_ANNOTATION = "restow.sh/migration-priority"
WAVE_ANNOTATION = "restow.sh/wave"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LARGEST = 2**63 - 1


def integer_annotation(job: PodMigrationJob, annotation: str) -> int | None:
    """The integer in an annotation; None without the annotation, or if it is not an integer of 64 bits."""
    text = (job.metadata.annotations or {}).get(annotation, "")
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -_LARGEST - 1 <= number <= _LARGEST else None


def unreadable_annotations(job: PodMigrationJob, annotations: Iterable[str]) -> Iterator[str]:
    """A problem for each of these annotations that exists and has no integer."""
    for annotation in annotations:
        text = (job.metadata.annotations or {}).get(annotation)
        if text and integer_annotation(job, annotation) is None:
            yield f"metadata.annotations[{annotation}]: {text[:40]!r} is not an integer of 64 bits"
