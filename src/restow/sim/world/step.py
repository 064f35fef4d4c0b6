"""The decision of a rule: the writes to send now, and when to look at the object again.

Rules are functions from the view to a `Step`. The world executes steps, and retries when a write fails.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import msgspec

from restow.model.kinds import Kind
from restow.model.objects import Document, Object, ObjectReference
from restow.ports import MERGE_PATCH


class Create(msgspec.Struct, frozen=True):
    """Create an object; an existing one of that name is as good."""

    kind: Kind[Any]
    document: Document


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """Change part of an object; with `version`, only if it has not moved on."""

    kind: Kind[Any]
    namespace: str | None
    name: str
    changes: Document
    subresource: str | None = None
    version: str | None = None
    type: str = MERGE_PATCH


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete this very object (uid); `grace` None leaves the grace period to the object."""

    kind: Kind[Any]
    namespace: str | None
    name: str
    uid: str
    grace: int | None = None

    @classmethod
    def of(cls, kind: Kind[Any], item: Object, *, grace: int | None = None) -> Self:
        meta = item.metadata
        namespace = meta.namespace if kind.namespaced else None
        return cls(kind=kind, namespace=namespace, name=meta.name, uid=meta.uid, grace=grace)


class Record(msgspec.Struct, frozen=True):
    """Record an Event about an object."""

    about: ObjectReference
    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Normal"


Write = Create | Patch | Delete | Record


class Step(msgspec.Struct, frozen=True):
    """Writes in order; the first that fails ends the step. `again`: seconds until the rule looks at this key anyway."""

    writes: tuple[Write, ...] = ()
    again: float | None = None


NOTHING = Step()
