"""Sets of fields, in the form `metadata.managedFields` stores them (FieldsV1), and their algebra.

    {"f:spec": {"f:replicas": {}, "f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}

A key is one step: `f:<field>`, `k:<keys of a list item>` or `v:<value of a set>`. A node without children is a member
of the set; a node with children is one only if it holds ".". The root is never a member; the empty set is `{}`. All
functions return new sets and may share nodes with their arguments, so nodes are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

FieldSet = dict[str, Any]

SELF = "."
LEAF: FieldSet = {}  # one member, shared by all sets


def is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def child_fields(node: FieldSet) -> FieldSet:
    if SELF not in node:
        return node
    return {step: child for step, child in node.items() if step != SELF}


def make_node(member: bool, below: FieldSet) -> FieldSet | None:
    """A node in normal form; None when it holds nothing."""
    if below:
        return {SELF: {}, **below} if member else below
    return {} if member else None


def field_union(left: FieldSet, right: FieldSet) -> FieldSet:
    result = dict(left)
    for step, theirs in right.items():
        ours = left.get(step)
        if ours is None:
            result[step] = theirs
        elif ours != theirs:
            joined = make_node(
                is_member(ours) or is_member(theirs), field_union(child_fields(ours), child_fields(theirs))
            )
            result[step] = {} if joined is None else joined
    return result


def field_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are not members of `right`; a member does not stand for what is below it."""
    if not right:
        return left
    result: FieldSet = {}
    for step, ours in left.items():
        theirs = right.get(step)
        kept = ours
        if theirs is not None:
            rest = make_node(
                is_member(ours) and not is_member(theirs), field_difference(child_fields(ours), child_fields(theirs))
            )
            if rest is None:
                continue
            kept = rest
        result[step] = kept
    return result


def field_intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    result: FieldSet = {}
    for step, ours in left.items():
        theirs = right.get(step)
        if theirs is not None:
            both = make_node(
                is_member(ours) and is_member(theirs), field_intersection(child_fields(ours), child_fields(theirs))
            )
            if both is not None:
                result[step] = both
    return result


def field_paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Every member as a path for people: `.spec.containers[name="web"].image`; members first, then what is below."""
    for step in sorted(fields):
        if step != SELF and is_member(fields[step]):
            yield prefix + shown_step(step)
    for step in sorted(fields):
        if step != SELF:
            yield from field_paths(child_fields(fields[step]), prefix + shown_step(step))


def shown_step(step: str) -> str:
    kind, _, rest = step.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = json.loads(rest)
        return "[" + ",".join(f"{name}={json.dumps(keys[name])}" for name in sorted(keys)) + "]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"


def is_malformed(fields: Any) -> bool:
    """Whether something a client sent cannot be a FieldsV1."""
    if not isinstance(fields, dict):
        return True
    return any(
        (step != SELF and step[:2] not in ("f:", "k:", "v:", "i:")) or is_malformed(below)
        for step, below in fields.items()
    )
