"""Reading JSON documents of unchecked shape.

In: a decoded document. Out: what stands at a path, or an empty value of the asked kind. Printing a strange object must
never fail, so a wrong type reads as absence.
"""

from __future__ import annotations

from typing import Any

from restow.model.objects import Document


def at(document: Any, *path: str) -> Any:
    """The value at a path of keys, or None."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def text(document: Any, *path: str) -> str:
    value = at(document, *path)
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, dict | list) else str(value)


def number(document: Any, *path: str) -> int:
    value = at(document, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def flag(document: Any, *path: str) -> bool:
    return at(document, *path) is True


def mapping(document: Any, *path: str) -> Document:
    value = at(document, *path)
    return value if isinstance(value, dict) else {}


def sequence(document: Any, *path: str) -> list[Document]:
    """The objects of a list; anything else in it is passed over."""
    value = at(document, *path)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(document: Any, *path: str) -> list[str]:
    value = at(document, *path)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def condition_is_true(document: Any, kind: str) -> bool:
    """Whether status.conditions has this type with status True."""
    conditions = sequence(document, "status", "conditions")
    return any(text(each, "type") == kind and text(each, "status") == "True" for each in conditions)
