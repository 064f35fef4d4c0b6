"""Documents against their `MergeTypes`: which fields one has, what differs between two, merging and removing.

These are the operations server-side apply is made of. In: documents and types; out: field sets (see `field_sets`) and
new documents. Nothing is changed in place; results share parts with their arguments.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from restow.adapters.memory.documents.field_sets import LEAF, SELF, FieldSet, child_fields, is_member, make_node
from restow.adapters.memory.documents.merge_types import DEDUCED, SCALAR, MergeTypes


class Changes(NamedTuple):
    """Fields set to something new, and fields that are gone."""

    changed: FieldSet
    removed: FieldSet


class BadItem(ValueError):
    """A list item that cannot be told from others: it lacks a key, or has one that is taken."""


_ATOMIC = "atomic"


def _merge_form(value: Any, types: MergeTypes) -> str:
    """How a value takes part in merging: as a "dict", a "list" or one "atomic" piece."""
    if types.whole:
        return _ATOMIC
    if isinstance(value, dict):
        return "dict" if types.form != "list" else _ATOMIC
    if isinstance(value, list) and types.form == "list":
        return "list"
    return _ATOMIC


@lru_cache(maxsize=8192)
def _value_step(value: str) -> str:
    return "v:" + json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=8192)
def _keys_step(*keys: tuple[str, Any]) -> str:
    return "k:" + json.dumps(dict(keys), ensure_ascii=False, separators=(",", ":"))


def step_of(item: Any, types: MergeTypes) -> str:
    """The step that names a list item: its keys in a list that is a map, its value in a set."""
    if not types.keys:
        if isinstance(item, str):
            return _value_step(item)
        return "v:" + json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(item, dict):
        raise BadItem("associative list with keys may not have non-map elements")
    keys: list[tuple[str, Any]] = []
    for key in types.sorted_keys:
        value = item.get(key)
        if value is None:
            if key not in types.key_defaults:
                continue
            value = types.key_defaults[key]
        keys.append((key, value))
    if not keys:
        wanted = ", ".join(f'"{key}"' for key in types.keys)
        raise BadItem(
            f"associative list with keys has an element that omits key field {wanted} (and doesn't have default value)"
        )
    try:
        return _keys_step(*keys)
    except TypeError:  # a key that is itself a list or a map
        raise BadItem("the keys of an associative list must be scalars") from None


def _items_by_step(items: list[Any] | None, types: MergeTypes) -> dict[str, Any]:
    """List items by step; duplicates, which only updates may bring in, count as their first."""
    by_step: dict[str, Any] = {}
    for item in items or ():
        by_step.setdefault(step_of(item, types), item)
    return by_step


def _item_type(types: MergeTypes) -> MergeTypes:
    return types.item() if types.keys else SCALAR


# --- which fields a document has ---


def field_set(value: Any, types: MergeTypes) -> FieldSet:
    """The fields an applied document claims: its leaves, its list items, its map entries."""
    return child_fields(_claimed_fields(value, types) or {})


def _claimed_fields(value: Any, types: MergeTypes) -> FieldSet | None:
    looks = _merge_form(value, types)
    if looks == "dict":
        below: FieldSet = {}
        for name, member in value.items():
            child = types.child(name)
            claimed = _claimed_fields(member, child)
            entry = member is None or member == {} or name not in types.fields
            if entry or claimed is not None:
                below[f"f:{name}"] = _joined_node(claimed, entry)
        return make_node(False, below)
    if looks == "list":
        items = {
            step: _joined_node(_claimed_fields(item, _item_type(types)), True)
            for step, item in _items_by_step(value, types).items()
        }
        return make_node(False, items)
    return {}


def _joined_node(claimed: FieldSet | None, member: bool) -> FieldSet:
    if claimed is None:
        return {}
    return make_node(member or is_member(claimed), child_fields(claimed)) or {}


def with_named_fields(fields: FieldSet, types: MergeTypes) -> FieldSet:
    """The set plus every struct field on the way to a member, so that emptied structs can be removed whole."""
    result: FieldSet = {}
    for step, below in fields.items():
        if step == SELF:
            continue
        name = step[2:]
        if step.startswith("f:"):
            child, named = types.child(name), name in types.fields
        else:
            child, named = _item_type(types), False
        made = make_node(is_member(below) or named, with_named_fields(child_fields(below), child))
        result[step] = {} if made is None else made
    return result


# --- what differs ---


def compare_documents(old: Any, new: Any, types: MergeTypes) -> Changes:
    changed, removed = _compare_values(old, new, types)
    return Changes(child_fields(changed or {}), child_fields(removed or {}))


def _compare_values(old: Any, new: Any, types: MergeTypes) -> tuple[FieldSet | None, FieldSet | None]:
    if old is new or old == new:
        return None, None
    before, after = _merge_form(old, types), _merge_form(new, types)
    if "dict" in (before, after) and _both_have_form("dict", old, before, new, after):
        return _compared_fields(old or {}, new or {}, types)
    if "list" in (before, after) and _both_have_form("list", old, before, new, after):
        return _compared_items(_items_by_step(old, types), _items_by_step(new, types), _item_type(types))
    # Two leaves, or a value that changed its form: all of the new one is set, all below the old one is gone.
    return all_fields(new, types), make_node(False, child_fields(all_fields(old, types)))


def _both_have_form(looks: str, old: Any, before: str, new: Any, after: str) -> bool:
    """Whether both sides look alike; null looks like whatever the other side is."""
    return (before == looks or old is None) and (after == looks or new is None)


def _compared_fields(
    old: dict[str, Any], new: dict[str, Any], types: MergeTypes
) -> tuple[FieldSet | None, FieldSet | None]:
    changed: FieldSet = {}
    removed: FieldSet = {}
    fields, rest = types.fields, types.element or DEDUCED
    for name, value in new.items():
        child = fields.get(name, rest)
        if name in old or (child.omit == "" and child.form in ("list", "map")):
            # Go writes a nil list without omitempty as null, so such a field never appears or vanishes.
            more, less = _compare_values(old.get(name), value, child)
            _add_field(changed, f"f:{name}", more)
            _add_field(removed, f"f:{name}", less)
        else:
            changed[f"f:{name}"] = all_fields(value, child)
    for name, value in old.items():
        if name not in new:
            removed[f"f:{name}"] = all_fields(value, fields.get(name, rest))
    return make_node(False, changed), make_node(False, removed)


def _compared_items(
    old: dict[str, Any], new: dict[str, Any], item: MergeTypes
) -> tuple[FieldSet | None, FieldSet | None]:
    changed: FieldSet = {}
    removed: FieldSet = {}
    for step, value in new.items():
        if step in old:
            more, less = _compare_values(old[step], value, item)
            _add_field(changed, step, more)
            _add_field(removed, step, less)
        else:
            changed[step] = all_fields(value, item)
    for step, value in old.items():
        if step not in new:
            removed[step] = all_fields(value, item)
    return make_node(False, changed), make_node(False, removed)


def _add_field(fields: FieldSet, step: str, below: FieldSet | None) -> None:
    if below is not None:
        fields[step] = below


def all_fields(value: Any, types: MergeTypes) -> FieldSet:
    """A value that is new (or gone) as a whole: itself and all below it."""
    if types.whole or not value:
        return LEAF
    below: FieldSet = {SELF: LEAF}
    if isinstance(value, dict) and types.form != "list":
        fields, rest = types.fields, types.element or DEDUCED
        for name, member in value.items():
            child = fields.get(name, rest)
            below["f:" + name] = LEAF if child.whole else all_fields(member, child)
    elif isinstance(value, list) and types.form == "list":
        item = _item_type(types)
        for step, member in _items_by_step(value, types).items():
            below[step] = all_fields(member, item)
    else:
        return LEAF
    return below


# --- merging and removing ---


def merge_applied(live: Any, applied: Any, types: MergeTypes) -> Any:
    """The live value with the applied one laid over it; null takes a field away."""
    before, after = _merge_form(live, types), _merge_form(applied, types)
    if before == "dict" and after == "dict":
        result = dict(live)
        for name, value in applied.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = (
                    merge_applied(live[name], value, types.child(name)) if name in live else without_nulls(value)
                )
        return result
    if before == "list" and after == "list":
        return _merged_items(live, applied, types)
    return without_nulls(applied)


def _merged_items(live: list[Any], applied: list[Any], types: MergeTypes) -> list[Any]:
    """Items of both lists: applied ones in applied order, live-only ones staying behind the item they followed."""
    theirs, ours = _items_by_step(live, types), _items_by_step(applied, types)
    item = _item_type(types)

    def joined(step: str) -> Any:
        return merge_applied(theirs[step], ours[step], item) if step in theirs else without_nulls(ours[step])

    result: list[Any] = []
    shared = [step for step in ours if step in theirs]
    left, right = list(theirs), list(ours)
    done: set[str] = set()
    here = there = 0
    while here < len(left) or there < len(right):
        if here < len(left) and there < len(right):
            step = left[here]
            if step == right[there]:
                result.append(joined(step))
                done.add(step)
                here, there = here + 1, there + 1
                continue
            waiting = next((step for step in shared if step not in done), None)
            if step in ours and waiting is not None and step != waiting:
                here += 1
                continue
        if here < len(left):
            step = left[here]
            if step not in ours:
                result.append(theirs[step])
                here += 1
                continue
            if step in done:
                here += 1
        if there < len(right):
            step = right[there]
            result.append(joined(step))
            done.add(step)
            there += 1
    return result


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def without_fields(value: Any, fields: FieldSet, types: MergeTypes) -> Any:
    """The value minus every member of `fields`; a container emptied by that becomes null, which marks its place."""
    if not fields or not value:
        return value
    looks = _merge_form(value, types)
    if looks == "dict":
        kept: dict[str, Any] = {}
        for name, member in value.items():
            below = fields.get(f"f:{name}")
            if below is None:
                kept[name] = member
            elif not is_member(below):
                kept[name] = without_fields(member, child_fields(below), types.child(name))
        return kept or None
    if looks == "list":
        return _items_without(value, fields, types) or None
    return value


def _items_without(items: list[Any], fields: FieldSet, types: MergeTypes) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        below = fields.get(step_of(item, types))
        if below is None:
            kept.append(item)
        elif not is_member(below):
            kept.append(without_fields(item, child_fields(below), _item_type(types)))
    return kept
