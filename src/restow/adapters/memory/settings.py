"""What can be chosen about the embedded API server."""

from __future__ import annotations

import msgspec


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    history: int = 4096
    """How many changes per resource a watch can resume across."""
    bookmark_seconds: float = 60.0
    """The period of bookmarks in watches that ask for them."""
    collect_garbage: bool = True
    """Whether dependents go when their owners do. Without it they stay."""
    end_namespaces: bool = True
    """Whether a deleted namespace is emptied and finalized. Without it, it waits until a client does both."""
    track_fields: bool = True
    """Whether ordinary writes keep managedFields. Without it they cost less, and server-side apply sees their fields as
    those of a single owner."""
    event_seconds: float | None = None
    """How long an Event is kept after its last write; None keeps it for ever."""
    protect_volumes: bool = False
    """Whether new claims and volumes get the finalizers of pv- and pvc-protection, which a controller removes when they
    are not in use."""
