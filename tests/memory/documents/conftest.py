"""Property tests here are not timed: other work may share the machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("documents", deadline=None)
settings.load_profile("documents")
