"""Defaulting and validation of the built-in kinds, as a document passes them on its way into the store."""

from __future__ import annotations

from restow.adapters.memory.documents.defaulting import apply_defaults
from restow.adapters.memory.documents.validation import validate_builtin

__all__ = ["apply_defaults", "validate_builtin"]
