"""Server-side apply: a manager states the fields it wants, the server works out the rest.

In: the live document (None when there is none yet), the applied one, and the name of the manager. Out: the next
document with its managedFields. Fields that the manager applied before and does not apply any more are removed unless
another manager owns them; a field that another manager owns with a different value is a conflict, which `force` decides
in the applier's favour.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from restow.adapters.memory.documents.comparison import (
    BadItem,
    compare_documents,
    field_set,
    merge_applied,
    step_of,
    with_named_fields,
    without_fields,
    without_nulls,
)
from restow.adapters.memory.documents.field_sets import (
    FieldSet,
    field_difference,
    field_intersection,
    field_paths,
    field_union,
    shown_step,
)
from restow.adapters.memory.documents.managed_fields import (
    IDENTITY,
    FieldManager,
    FieldOwners,
    OwnedFields,
    blank_document,
    read_owners,
    track_update,
    with_owners,
)
from restow.adapters.memory.documents.merge_types import MergeTypes
from restow.adapters.memory.documents.request_errors import bad_request
from restow.adapters.memory.documents.typed_documents import conform_to_kind
from restow.ports import Conflict, StatusCause, StatusDetails

__all__ = ["server_side_apply", "track_update"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE = "before-first-apply"
KUBECTL = "kubectl"


def server_side_apply(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    *,
    manager: str,
    force: bool,
    now: str,
    merge: MergeTypes,
    subresource: str | None = None,
) -> dict[str, Any]:
    """The document after `manager` applied its intent; Conflict where others own what it would change.

    An apply to the object itself cannot set `status`, one to the status subresource nothing else. An apply that changes
    nothing returns an equal document.
    """
    _check_applied(applied, merge)
    applied = _settable_fields(applied, subresource)
    owner = FieldManager(manager, "Apply", applied.get("apiVersion", ""), subresource or "")
    before = live if live is not None else blank_document(applied)
    owners = _owners_before(live, merge)
    last = owners.get(owner)
    claimed = field_set(applied, merge)
    mine = field_difference(claimed, IDENTITY)
    owners[owner] = OwnedFields(mine, last.time if last else None)
    result = merge_applied(_without_managed_fields(before), applied, merge)
    if last:
        result = _prune_unowned(result, last.fields, claimed, owners, merge)
    # A container that lost its last field is null here and so not "removed": the owner of the whole container keeps it.
    changes = compare_documents(_without_managed_fields(before), result, merge)
    if last:
        result = without_nulls(result)
    disputed = _disputed_fields(owners, owner, changes.changed)
    if disputed and not force:
        granted = _applied_by_client(live, merge) if manager == KUBECTL and live else {}
        refused = {other: rest for other, fields in disputed.items() if (rest := field_difference(fields, granted))}
        if refused:
            raise _conflict_error(refused)
    owners = _owners_after(owners, owner, disputed, changes.removed)
    if mine and (
        last is None or last.fields != mine or not _is_same_when_stored(result, _without_managed_fields(before))
    ):
        owners[owner] = OwnedFields(mine, now)
    if manager == KUBECTL:
        result = _with_last_applied(result, applied)
    return with_owners(result, owners)


def _without_managed_fields(document: dict[str, Any]) -> dict[str, Any]:
    """A document without its managedFields, which are not fields themselves."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return document
    return {**document, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _is_same_when_stored(result: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether both are the same once stored; an empty optional list, for instance, is not stored at all."""
    if result == before:
        return True
    group, kind = result.get("apiVersion", "").rpartition("/")[0], result.get("kind", "")
    return (
        conform_to_kind(result, group=group, kind=kind).document
        == conform_to_kind(before, group=group, kind=kind).document
    )


def _settable_fields(applied: dict[str, Any], subresource: str | None) -> dict[str, Any]:
    """The top-level fields of the applied document that this request can set."""
    if subresource == "status":
        return {name: value for name, value in applied.items() if name in ("apiVersion", "kind", "metadata", "status")}
    return {name: value for name, value in applied.items() if name != "status"}


def _owners_before(live: dict[str, Any] | None, merge: MergeTypes) -> FieldOwners:
    """The owners of the live document; fields of one never tracked belong to `before-first-apply`."""
    owners = read_owners(live)
    if live is None or owners:
        return owners
    tracked = compare_documents(blank_document(live), _without_managed_fields(live), merge).changed
    owner = FieldManager(BEFORE, "Update", live.get("apiVersion", ""), "")
    return {owner: OwnedFields(field_difference(tracked, IDENTITY), live.get("metadata", {}).get("creationTimestamp"))}


def _prune_unowned(
    result: dict[str, Any], last: FieldSet, claimed: FieldSet, owners: FieldOwners, merge: MergeTypes
) -> dict[str, Any]:
    """Remove what this manager applied last time and no manager owns now; `claimed` includes the object's identity."""
    wanted = claimed
    for owned in owners.values():
        wanted = field_union(wanted, owned.fields)
    had = with_named_fields(last, merge)
    present = with_named_fields(field_set(result, merge), merge)
    kept = field_union(_named_fields(without_fields(result, had, merge), merge), with_named_fields(wanted, merge))
    remaining = _named_fields(without_fields(result, field_difference(present, kept), merge), merge)
    pruned: dict[str, Any] = without_fields(
        result, field_intersection(field_difference(present, remaining), had), merge
    )
    return pruned


def _named_fields(document: Any, merge: MergeTypes) -> FieldSet:
    return with_named_fields(field_set(document, merge), merge)


def _disputed_fields(owners: FieldOwners, owner: FieldManager, changed: FieldSet) -> dict[FieldManager, FieldSet]:
    """What the write changes although others own it."""
    return {
        other: fields
        for other, owned in owners.items()
        if other != owner and (fields := field_intersection(owned.fields, changed))
    }


def _owners_after(
    owners: FieldOwners, owner: FieldManager, disputed: dict[FieldManager, FieldSet], removed: FieldSet
) -> FieldOwners:
    """Ownership after the write: others lose what was changed or removed, and go when nothing is left."""
    settled: FieldOwners = {}
    for other, owned in owners.items():
        fields = owned.fields
        if other != owner:
            fields = field_difference(field_difference(fields, disputed.get(other, {})), removed)
        if fields:
            settled[other] = OwnedFields(fields, owned.time)
    return settled


# --- conflicts ---


def _conflict_error(disputed: dict[FieldManager, FieldSet]) -> Conflict:
    causes: list[StatusCause] = []
    listed: list[str] = []
    for other in sorted(disputed):
        manager = _manager_text(other)
        listed.append(f"conflicts with {manager}:")
        for path in field_paths(disputed[other]):
            causes.append(StatusCause(reason="FieldManagerConflict", message=f"conflict with {manager}", field=path))
            listed.append(f"- {path}")
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(listed)
    return Conflict.because(409, "Conflict", text, StatusDetails(causes=causes))


def _manager_text(other: FieldManager) -> str:
    text = json.dumps(other.manager)
    if other.subresource:
        text += f" with subresource {json.dumps(other.subresource)}"
    if other.operation == "Update":
        text += f" using {other.api_version}"
    return text


# --- coming from client-side apply ---


def _applied_by_client(live: dict[str, Any], merge: MergeTypes) -> FieldSet:
    """Fields that kubectl's annotation says it applied and that still hold that value: kubectl may take them over."""
    text = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        applied = msgspec.json.decode(text or "")
    except msgspec.DecodeError:
        return {}
    if not isinstance(applied, dict) or applied.get("apiVersion") != live.get("apiVersion"):
        return {}
    changed, removed = compare_documents(applied, _without_managed_fields(live), merge)
    return field_difference(field_difference(field_set(applied, merge), changed), removed)


def _with_last_applied(result: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """kubectl's annotation follows what was applied, so that going back to client-side apply works."""
    metadata = result.get("metadata", {})
    annotations = metadata.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return result
    content = _without_annotation(applied)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n"
    return {**result, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}


def _without_annotation(applied: dict[str, Any]) -> dict[str, Any]:
    metadata = applied.get("metadata", {})
    kept = {name: value for name, value in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    return {**applied, "metadata": {**metadata, "annotations": kept}}


# --- what cannot be applied ---


def _check_applied(applied: dict[str, Any], merge: MergeTypes) -> None:
    """Refuse own managedFields, undeclared fields, values of the wrong form, list items without a key of their own."""
    metadata = applied.get("metadata")
    if not isinstance(metadata, dict):
        raise bad_request("metadata: an applied document needs an object here")
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    problems = list(_schema_problems(applied, merge, ""))
    if problems:
        version = applied.get("apiVersion", "")
        place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        subject = f"{place}; {version if '/' in version else '/' + version}, Kind={applied.get('kind')}"
        raise bad_request(f"failed to create typed patch object ({subject}): " + "; ".join(problems))


_EXPECTED = {"struct": (dict, "map"), "map": (dict, "map"), "list": (list, "list")}


def _schema_problems(value: Any, types: MergeTypes, path: str) -> Iterator[str]:
    if value is None or types.form in ("leaf", "any"):
        return
    wanted, word = _EXPECTED[types.form]
    if not isinstance(value, wanted):
        yield f"{path or '.'}: expected {word}, got {value!r}"
    elif isinstance(value, dict):
        for name, member in value.items():
            if types.form == "struct" and name not in types.fields and types.element is None:
                yield f"{path}.{name}: field not declared in schema"
            else:
                yield from _schema_problems(member, types.child(name), f"{path}.{name}")
    elif not types.atomic:
        yield from _item_problems(value, types, path)


def _item_problems(items: list[Any], types: MergeTypes, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        try:
            step = step_of(item, types)
        except BadItem as error:
            yield f"{path}: element {index}: {error}"
            continue
        where = shown_step(step)
        if step in seen:
            yield f"{path}: duplicate entries for key {where}"
        seen.add(step)
        if types.keys:
            yield from _schema_problems(item, types.item(), path + where)
