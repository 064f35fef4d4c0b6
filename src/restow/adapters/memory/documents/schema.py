"""Custom resources: what a CustomResourceDefinition's schema says about documents."""

from __future__ import annotations

from typing import Any

from restow.adapters.memory.documents.merging import UNTYPED, MergeTypes
from restow.ports import StatusCause


class CustomSchema:
    """One version's compiled schema."""

    def __init__(self, merge: MergeTypes) -> None:
        self.merge = merge

    @classmethod
    def compile(cls, crd_version: dict[str, Any]) -> CustomSchema:
        """Compile one entry of spec.versions."""
        return cls(UNTYPED)

    def prune(self, doc: dict[str, Any]) -> None:
        """Drop, in place, what the schema does not know."""

    def apply_defaults(self, doc: dict[str, Any]) -> None:
        """Set, in place, the schema's defaults where nothing is."""

    def validate(self, doc: dict[str, Any], old: dict[str, Any] | None) -> list[StatusCause]:
        """Every violation of the schema with its path."""
        return []

    def unknown_fields(self, doc: dict[str, Any]) -> list[str]:
        """The paths of fields the schema would prune."""
        return []


def validate_definition(crd: dict[str, Any]) -> list[StatusCause]:
    """Why a CustomResourceDefinition cannot be served; empty when it can."""
    return []
