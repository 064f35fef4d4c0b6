"""Strategic merge patch: a merge patch that knows which lists are keyed and understands `$` directives.

In: the original document, the patch and the kind's `MergeTypes`. Out: a new document sharing what was not touched.
Directives: `$patch: merge|replace|delete` in maps and in list items, `$retainKeys`, `$deleteFromPrimitiveList/<list>`,
`$setElementOrder/<list>`. `StrategicError` names the path of what cannot be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from restow.adapters.memory.documents.merge_types import MergeTypes

DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
DELETE_LIST = "$deleteFromPrimitiveList/"
ORDER_LIST = "$setElementOrder/"


class StrategicError(ValueError):
    """A patch with directives or list items that make no sense; the text starts with the path."""


def strategic_merge(
    original: dict[str, Any], patch: dict[str, Any], types: MergeTypes, path: str = ""
) -> dict[str, Any]:
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise StrategicError(f"{path or '<root>'}: unknown patch type: {directive}")
    # Upstream's order: members first, then deletions from primitive lists, then the order of lists, which is about the
    # lists that result.
    merged = _retain_keys(original, patch, path)
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_member(merged, name, value, types.child(name), _join_path(path, name))
    for name, value in patch.items():
        if name.startswith(DELETE_LIST):
            _delete_from(merged, name.removeprefix(DELETE_LIST), value, path)
    for name, value in patch.items():
        if name.startswith(ORDER_LIST):
            listed = name.removeprefix(ORDER_LIST)
            _order(merged, original, patch, listed, value, types.child(listed), _join_path(path, listed))
    return merged


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _retain_keys(original: dict[str, Any], patch: dict[str, Any], path: str) -> dict[str, Any]:
    """A copy of the original, cut down to `$retainKeys` where given; the patch may only set keys it retains."""
    if RETAIN not in patch:
        return dict(original)
    keys = patch[RETAIN]
    if not isinstance(keys, list) or any(
        name not in keys for name, value in patch.items() if value is not None and not name.startswith("$")
    ):
        raise StrategicError(f"{path or '<root>'}: invalid patch format of retainKeys")
    return {name: value for name, value in original.items() if name in keys}


def _merge_member(merged: dict[str, Any], name: str, value: Any, types: MergeTypes, path: str) -> None:
    if value is None:
        merged.pop(name, None)
        return
    current = merged.get(name)
    if isinstance(value, dict):
        if not isinstance(current, dict):
            if value.get(DIRECTIVE) == "delete":
                merged.pop(name, None)
            else:
                merged[name] = without_directives(value)
        elif "replace" in types.patch:
            merged[name] = value
        else:
            merged[name] = strategic_merge(current, value, types, path)
    elif isinstance(value, list):
        merged[name] = (
            _merge_list(current, value, types, path) if isinstance(current, list) else without_directives(value)
        )
    else:
        merged[name] = value


def _merge_list(current: list[Any], patch: list[Any], types: MergeTypes, path: str) -> list[Any]:
    if "merge" not in types.patch:
        return patch
    if types.patch_key:
        return _merge_items(current, patch, types, path)
    added = [value for position, value in enumerate(patch) if value not in current and value not in patch[:position]]
    return _order_items(current + added, current, patch, "", path)


def _merge_items(current: list[Any], patch: list[Any], types: MergeTypes, path: str) -> list[Any]:
    """Merge list items by their key; directives in items delete one item or replace the whole list."""
    key = types.patch_key
    plain: list[dict[str, Any]] = []
    merged = list(current)
    replace = False
    for position, item in enumerate(patch):
        if not isinstance(item, dict):
            raise StrategicError(f"{path}[{position}]: expected an object with the merge key {key!r}")
        directive = item.get(DIRECTIVE)
        if directive == "delete":
            wanted = _key_of(item, key, f"{path}[{position}]")
            merged = [other for other in merged if not (isinstance(other, dict) and other.get(key) == wanted)]
        elif directive == "replace":
            replace = True
        elif directive in (None, "merge"):
            plain.append(item)
        else:
            raise StrategicError(f"{path}[{position}]: unknown patch type: {directive}")
    # One `$patch: replace` anywhere in the list replaces all of it, by the items that have no directive.
    if replace:
        return [without_directives(item) for item in plain]
    before = list(merged)
    for position, item in enumerate(plain):
        wanted = _key_of(item, key, f"{path}[{position}]")
        for index, other in enumerate(merged):
            if isinstance(other, dict) and other.get(key) == wanted:
                merged[index] = strategic_merge(other, item, types.item(), f"{path}[{index}]")
                break
        else:
            merged.append(without_directives(item))
    return _order_items(merged, before, plain, key, path)


def _key_of(item: dict[str, Any], key: str, path: str) -> Any:
    if key not in item:
        raise StrategicError(f"{path}: map does not contain declared merge key: {key}")
    return item[key]


def _delete_from(merged: dict[str, Any], name: str, values: Any, path: str) -> None:
    current = merged.get(name)
    if not isinstance(values, list):
        raise StrategicError(f"{_join_path(path, name)}: invalid patch format of primitive list")
    if isinstance(current, list):
        merged[name] = [value for value in current if value not in values]


def _order(
    merged: dict[str, Any],
    original: dict[str, Any],
    patch: dict[str, Any],
    name: str,
    order: Any,
    types: MergeTypes,
    path: str,
) -> None:
    """Carry out `$setElementOrder`."""
    current = merged.get(name)
    if not isinstance(order, list):
        raise StrategicError(f"{path}: invalid patch format of setElementOrder list")
    if not isinstance(current, list):
        return
    _check_order(
        patch.get(name), [_item_identity(item, types.patch_key, path) for item in order], types.patch_key, path
    )
    before = _old_positions(original.get(name) or [], current, types.patch_key, path)
    merged[name] = _order_items(current, before, order, types.patch_key, path)


def _old_positions(original: list[Any], current: list[Any], key: str, path: str) -> list[Any]:
    """The old positions, as upstream sees them: an added item takes the place that a deleted one left at the end."""
    here = [_item_identity(item, key, path) for item in current]
    stayed = [item for item in original if _item_identity(item, key, path) in here]
    known = [_item_identity(item, key, path) for item in stayed]
    added = [item for item in current if _item_identity(item, key, path) not in known]
    return [*stayed, *added][: len(original)]


def _order_items(merged: list[Any], before: list[Any], order: list[Any], key: str, path: str) -> list[Any]:
    """Items the client named come in its order; the others keep their order and stay before what they preceded."""
    wanted = [_item_identity(item, key, path) for item in order]
    positions = [_item_identity(item, key, path) for item in before]
    known = [item for item in merged if _item_identity(item, key, path) in wanted]
    known.sort(key=lambda item: wanted.index(_item_identity(item, key, path)))
    others = [item for item in merged if _item_identity(item, key, path) not in wanted]
    return _interleave(others, known, positions, key, path)


def _check_order(listed: Any, wanted: list[Any], key: str, path: str) -> None:
    """The items of the patch must appear in the order list, in the same relative order."""
    if not isinstance(listed, list):
        return
    kept = [item for item in listed if not (isinstance(item, dict) and DIRECTIVE in item)]
    remaining = iter(wanted)
    if wanted and not all(_item_identity(item, key, path) in remaining for item in kept):
        raise StrategicError(f"{path}: the order in patch list doesn't match $setElementOrder list")


def _item_identity(item: Any, key: str, path: str) -> Any:
    return _key_of(item, key, path) if key and isinstance(item, dict) else item


def _interleave(left: Sequence[Any], right: Sequence[Any], before: list[Any], key: str, path: str) -> list[Any]:
    """Merge two sorted runs by their old positions; an item without one counts as coming first."""
    result: list[Any] = []
    waiting, coming = list(left), list(right)
    while waiting and coming:
        first, second = _item_identity(waiting[0], key, path), _item_identity(coming[0], key, path)
        earlier = first in before and second in before and before.index(first) < before.index(second)
        result.append((waiting if earlier else coming).pop(0))
    return result + waiting + coming


def without_directives(value: Any) -> Any:
    """What a patch value means where there is nothing to merge it with: itself, minus directives and nulls."""
    if isinstance(value, dict):
        if value.get(DIRECTIVE) == "delete":
            return {}
        return {
            name: without_directives(member) for name, member in value.items() if member is not None and name[:1] != "$"
        }
    if isinstance(value, list):
        return [
            without_directives(item)
            for item in value
            if not (isinstance(item, dict) and item.get(DIRECTIVE) in ("delete", "replace"))
        ]
    return value
