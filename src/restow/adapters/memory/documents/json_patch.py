"""JSON patch (RFC 6902) over plain documents.

In: a document and the operations. Out: a new document that shares every part the operations did not touch; the original
is never changed. `PatchError` says which operation failed and why, in the words of upstream's JSON patch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

COPY_LIMIT = 3 * 1024 * 1024  # upstream's bound on what all copies of a patch may add
OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


class PatchError(ValueError):
    """An operation that cannot be carried out on this document."""


class MalformedPatch(ValueError):
    """Something that is not a JSON patch at all."""


def json_patch(document: Any, operations: Any) -> Any:
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise MalformedPatch("a JSON patch is a list of objects")
    for number, operation in enumerate(operations):
        _check(number, operation)
    copied = 0
    for operation in operations:
        if operation["op"] == "copy":
            copied += _size_of_copy(document, operation)
            if copied > COPY_LIMIT:
                raise PatchError(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied}, exceeding the limit {COPY_LIMIT}"
                )
        document = _carry_out(document, operation)
    return document


def _check(number: int, operation: Mapping[str, Any]) -> None:
    verb = operation.get("op")
    if verb not in OPERATIONS:
        raise PatchError(f"operation {number} has an unknown op {verb!r}")
    for member in ("path", "from") if verb in {"move", "copy"} else ("path",):
        if not isinstance(operation.get(member), str):
            raise PatchError(f"operation {number} ({verb}) needs the member {member!r}")
    if verb in {"add", "replace", "test"} and "value" not in operation:
        raise PatchError(f"operation {number} ({verb}) needs the member 'value'")


def _size_of_copy(document: Any, operation: Mapping[str, Any]) -> int:
    source = operation["from"]
    return len(msgspec.json.encode(_get(document, _tokens(source), source, "copy")))


def _carry_out(document: Any, operation: Mapping[str, Any]) -> Any:
    verb, path = operation["op"], operation["path"]
    tokens = _tokens(path)
    if verb == "add":
        return _add(document, tokens, operation["value"], path)
    if verb == "remove":
        return _remove(document, tokens, path)
    if verb == "replace":
        return _replace(document, tokens, operation["value"], path)
    if verb == "test":
        return _test(document, tokens, operation["value"], path)
    source = operation["from"]
    value = _get(document, _tokens(source), source, verb)
    if verb == "move":
        if path.startswith(source + "/"):
            raise PatchError(f"move operation cannot move {source} into its own child {path}")
        document = _remove(document, _tokens(source), source)
    return _add(document, tokens, value, path)


def _tokens(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise PatchError(f"path {pointer!r} does not start with '/'")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/")]


def _index(token: str, limit: int, path: str) -> int:
    """An array position below `limit`; upstream also counts negative ones from the end, but RFC 6902 has none."""
    if not token.isascii() or not token.isdigit() or (len(token) > 1 and token[0] == "0"):
        raise PatchError(f"invalid array index {token!r} in {path}")
    position = int(token)
    if position >= limit:
        raise PatchError(f"Unable to access invalid index: {token} in {path}")
    return position


def _step(node: Any, token: str, path: str, verb: str) -> Any:
    if isinstance(node, dict):
        if token in node:
            return node[token]
    elif isinstance(node, list):
        if token != "-":
            return node[_index(token, len(node), path)]
        raise PatchError(f"Unable to access invalid index: - in {path}")
    raise PatchError(f"{verb} operation does not apply: doc is missing path: {path}: missing value")


def _get(document: Any, tokens: Sequence[str], path: str, verb: str) -> Any:
    for token in tokens:
        document = _step(document, token, path, verb)
    return document


def _rebuilt(node: Any, token: str, child: Any, path: str) -> Any:
    """A copy of one level with one member exchanged."""
    if isinstance(node, dict):
        return {**node, token: child}
    copied = list(node)
    copied[_index(token, len(copied), path)] = child
    return copied


def _edit(node: Any, tokens: Sequence[str], path: str, verb: str, change: Any) -> Any:
    """Apply `change(parent copy, last token)` at the end of the path, copying only the levels on the way."""
    if len(tokens) == 1:
        return change(node, tokens[0])
    child = _step(node, tokens[0], path, verb)
    return _rebuilt(node, tokens[0], _edit(child, tokens[1:], path, verb, change), path)


def _add(document: Any, tokens: Sequence[str], value: Any, path: str) -> Any:
    if not tokens:
        return value

    def change(parent: Any, token: str) -> Any:
        if isinstance(parent, dict):
            return {**parent, token: value}
        if not isinstance(parent, list):
            raise PatchError(f"add operation does not apply: doc is missing path: {path!r}: missing value")
        position = len(parent) if token == "-" else _index(token, len(parent) + 1, path)
        return [*parent[:position], value, *parent[position:]]

    return _edit(document, tokens, path, "add", change)


def _remove(document: Any, tokens: Sequence[str], path: str) -> Any:
    if not tokens:
        raise PatchError("remove operation cannot remove the whole document")

    def change(parent: Any, token: str) -> Any:
        if isinstance(parent, dict) and token in parent:
            return {name: value for name, value in parent.items() if name != token}
        if isinstance(parent, list) and token != "-":
            position = _index(token, len(parent), path)
            return [*parent[:position], *parent[position + 1 :]]
        raise PatchError(f"remove operation does not apply: doc is missing path: {path!r}: missing value")

    return _edit(document, tokens, path, "remove", change)


def _replace(document: Any, tokens: Sequence[str], value: Any, path: str) -> Any:
    if not tokens:
        return value

    def change(parent: Any, token: str) -> Any:
        if not isinstance(parent, dict):  # upstream lets a replace add a missing member, the RFC would not
            _step(parent, token, path, "replace")
        return _rebuilt(parent, token, value, path)

    return _edit(document, tokens, path, "replace", change)


def _test(document: Any, tokens: Sequence[str], expected: Any, path: str) -> Any:
    """Upstream reads a missing member as null here, so a test for null passes where nothing is."""
    try:
        actual = _get(document, tokens, path, "test")
    except PatchError:
        if expected is None:
            return document
        raise PatchError(f"testing value {path} failed: test failed") from None
    if not same_json(actual, expected):
        raise PatchError(f"testing value {path} failed: test failed")
    return document


def same_json(left: Any, right: Any) -> bool:
    """Equality of JSON values: booleans are not numbers, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)
