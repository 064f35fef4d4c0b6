"""The fast path of schema validation: a compiled check that passes a value with nothing to prune, default or refuse.

Almost all writes are valid, and most repeat earlier ones. A schema node compiles into a function that recognises a
valid value at a fraction of the cost of the rules. It returns False wherever it is not sure; the rules then decide, and
only they name the mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from restow.adapters.memory.documents.schema_nodes import MISSING, SchemaNode
from restow.adapters.memory.documents.schema_rules import satisfies_scalar_rules

FastCheck = Callable[[Any], bool]
_KINDS: dict[str, tuple[type, ...]] = {"string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float)}
_REMEMBERED = 64
"""How many results for single values a node caches: quantities, times and counts repeat."""


def compile_fast_check(node: SchemaNode) -> FastCheck:
    """A function that returns True for a value that the rules need not look at."""
    look = _never_passes if _is_intricate(node) else _of_type(node)
    return (lambda value: value is None or look(value)) if node.nullable else look


def compile_fast_resource_check(root: SchemaNode, typed: tuple[str, ...]) -> FastCheck:
    """The same for a whole document, apart from the members that are typed without its schema."""
    if (
        root.type != "object"
        or root.limits
        or root.enum
        or _is_intricate(root)
        or any(_says_more(root, name) for name in typed)
    ):
        return _never_passes
    return _object(root, typed)


def _says_more(root: SchemaNode, name: str) -> bool:
    """Whether a schema restricts a member that is typed without it."""
    node = root.properties.get(name)
    return node is not None and bool(node.properties or node.pattern or node.enum or node.limits or node.format)


def _never_passes(value: Any) -> bool:
    return False


def _is_intricate(node: SchemaNode) -> bool:
    """Whether it needs more than the value, or says the same thing twice."""
    return bool(node.embedded or node.rules) or (node.type in ("object", "array") and _has_junctors(node))


def _has_junctors(node: SchemaNode) -> bool:
    return bool(node.all_of or node.any_of or node.one_of or node.excluded)


def _of_type(node: SchemaNode) -> FastCheck:
    if node.int_or_string or not node.type:
        return _scalar(node, (str, int))
    if node.type in ("object", "array") and (node.enum is not None or node.limits):
        return _never_passes
    if node.type == "object":
        return _object(node)
    if node.type == "array":
        return _list(node)
    return _scalar(node, _KINDS[node.type])


def _scalar(node: SchemaNode, kinds: tuple[type, ...]) -> FastCheck:
    if _is_free(node):
        return lambda value: type(value) in kinds
    is_right = lru_cache(_REMEMBERED, typed=True)(lambda value: satisfies_scalar_rules(value, node))
    return lambda value: type(value) in kinds and is_right(value)


def _is_free(node: SchemaNode) -> bool:
    """Whether a scalar's type is all that matters."""
    return not (node.format or node.limits or node.pattern or node.enum is not None or _has_junctors(node))


def _free_kinds(node: SchemaNode) -> frozenset[type] | None:
    """The types of a scalar of which nothing else matters; most members are such."""
    if node.type not in _KINDS or node.int_or_string or node.rules or not _is_free(node):
        return None
    return frozenset((*_KINDS[node.type], *((type(None),) if node.nullable else ())))


def _object(node: SchemaNode, passed_over: tuple[str, ...] = ()) -> FastCheck:
    free = {name: _free_kinds(child) for name, child in node.properties.items() if name not in passed_over}
    known = {name: compile_fast_check(child) for name, child in node.properties.items()} | dict.fromkeys(
        passed_over, _always_passes
    )
    other = (
        compile_fast_check(node.additional)
        if node.additional is not None
        else _always_passes
        if node.preserves
        else _never_passes
    )
    defaulted = (name for name, child in node.properties.items() if child.default is not MISSING)
    needed = {*node.required, *defaulted}.difference(passed_over)

    def look(value: Any) -> bool:
        if type(value) is not dict or not needed <= value.keys():
            return False
        for name, member in value.items():
            kinds = free.get(name)
            if not (type(member) in kinds if kinds is not None else known.get(name, other)(member)):
                return False
        return True

    return look


def _always_passes(value: Any) -> bool:
    return True


def _list(node: SchemaNode) -> FastCheck:
    if node.items is None or node.items.nullable or node.list_type == "set":
        return _never_passes
    item, keys = compile_fast_check(node.items), node.keys

    def look(value: Any) -> bool:
        return type(value) is list and all(map(item, value))

    def look_apart(value: Any) -> bool:
        return look(value) and len({tuple(str(each.get(key)) for key in keys) for each in value}) == len(value)

    return look_apart if node.list_type == "map" and node.items.type == "object" else look
