"""Changes to the API that scheduling decides on and `control` carries out."""

from __future__ import annotations

from typing import Any

import msgspec

from restow.model.kinds import Kind


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A merge patch of one object, valid only for the version it was decided on."""

    kind: Kind[Any]
    namespace: str | None
    name: str
    changes: dict[str, Any]
    resource_version: str
    subresource: str | None = None


Write = Patch
"""A write that a plugin asks for before a pod is bound, or to make another component bind it."""
