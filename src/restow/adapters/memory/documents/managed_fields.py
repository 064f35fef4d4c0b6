"""`metadata.managedFields`: which manager set which field, kept through creates, updates and patches.

In: the stored document and the one about to replace it. Out: the new document with its managedFields. An entry
belongs to one manager, one operation (Apply or Update), one API version and one subresource; changing a field takes
it away from all other managers, and an entry without fields is dropped. The rules of Apply are in
`server_side_apply`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from restow.adapters.memory.documents.comparison import Changes, compare_documents
from restow.adapters.memory.documents.field_sets import FieldSet, field_difference, field_union, is_malformed
from restow.adapters.memory.documents.merge_types import MergeTypes, merge_types
from restow.adapters.memory.documents.request_errors import bad_request
from restow.adapters.memory.documents.result_cache import ResultCache
from restow.adapters.memory.documents.typed_documents import conform_to_kind

MAX_UPDATERS = 10  # upstream folds the oldest updaters beyond this many into one entry
ANCIENT = "ancient-changes"
IDENTITY: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:name": {},
        "f:namespace": {},
        "f:creationTimestamp": {},
        "f:selfLink": {},
        "f:uid": {},
        "f:clusterName": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:resourceVersion": {},
    },
}


class FieldManager(NamedTuple):
    """The key of one entry."""

    manager: str
    operation: str
    api_version: str
    subresource: str


class OwnedFields(NamedTuple):
    """The fields of one entry, and the time of its last change."""

    fields: FieldSet
    time: str | None


FieldOwners = dict[FieldManager, OwnedFields]


def read_owners(document: dict[str, Any] | None) -> FieldOwners:
    """The managedFields of a stored document, by owner."""
    owners: FieldOwners = {}
    for entry in (document or {}).get("metadata", {}).get("managedFields") or []:
        if entry:
            owner = FieldManager(
                entry.get("manager", ""), entry["operation"], entry.get("apiVersion", ""), entry.get("subresource", "")
            )
            owners[owner] = OwnedFields(entry["fieldsV1"], entry.get("time"))
    return owners


def _check_entries(entries: Any) -> None:
    """managedFields a client sends are its own responsibility, but they must be readable."""
    if not isinstance(entries, list):
        raise bad_request("metadata.managedFields: expected a list")
    for index, entry in enumerate(entries):
        if entry and not _is_readable(entry):
            raise bad_request(f"metadata.managedFields[{index}]: not a managed fields entry")


def _is_readable(entry: Any) -> bool:
    if not isinstance(entry, dict) or is_malformed(entry.get("fieldsV1")):
        return False
    texts = [entry.get(name, "") for name in ("manager", "apiVersion", "subresource")]
    return entry.get("operation") in ("Apply", "Update") and all(isinstance(text, str) for text in texts)


def with_owners(document: dict[str, Any], owners: FieldOwners) -> dict[str, Any]:
    """The document with these managedFields: appliers first, then by time and name."""
    metadata = {name: value for name, value in document.get("metadata", {}).items() if name != "managedFields"}
    entries = [_entry(owner, owned) for owner, owned in sorted(owners.items(), key=_entry_order) if owned.fields]
    if entries:
        metadata["managedFields"] = entries
    return {**document, "metadata": metadata}


def _entry_order(item: tuple[FieldManager, OwnedFields]) -> tuple[str, str, FieldManager]:
    owner, owned = item
    return owner.operation, owned.time or "", owner


def _entry(owner: FieldManager, owned: OwnedFields) -> dict[str, Any]:
    entry: dict[str, Any] = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version}
    if owned.time:
        entry["time"] = owned.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owned.fields
    if owner.subresource:
        entry["subresource"] = owner.subresource
    return entry


def blank_document(document: dict[str, Any]) -> dict[str, Any]:
    """What there was before a document was created: for built-ins the zero value of its type. Not to be changed."""
    return _blank(document.get("apiVersion", ""), document.get("kind", ""))


@cache
def _blank(api_version: str, kind: str) -> dict[str, Any]:
    group = api_version.rpartition("/")[0]
    identity = {"apiVersion": api_version, "kind": kind}
    return identity if merge_types(group, kind) is None else conform_to_kind(identity, group=group, kind=kind).document


def track_update(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    manager: str,
    now: str,
    merge: MergeTypes,
    operation: str = "Update",
    subresource: str | None = None,
) -> dict[str, Any]:
    """`new` with managedFields telling that `manager` set what differs from `old` (None on creation).

    managedFields that `new` itself brings replace the stored ones, except on subresources; `[{}]` clears them. An
    object without managedFields gets none until the first server-side apply.
    """
    brought = new.get("metadata", {}).get("managedFields")
    stored = (old or {}).get("metadata", {}).get("managedFields")
    if brought and not subresource and brought != stored:
        _check_entries(brought)
        owners = read_owners(new)
    else:
        owners = read_owners(old)
    if old is not None and not owners:
        return with_owners(new, {})
    changed, removed = _created_fields(new, merge) if old is None else compare_documents(old, new, merge)
    changed, removed = field_difference(changed, IDENTITY), field_difference(removed, IDENTITY)
    if changed or removed:
        owner = FieldManager(manager or "unknown", operation, new.get("apiVersion", ""), subresource or "")
        owners = _take_ownership(owners, owner, changed, removed, now)
    return with_owners(new, owners)


_SPECIFICATIONS: ResultCache[Changes] = ResultCache()


def _created_fields(new: dict[str, Any], merge: MergeTypes) -> Changes:
    """What creating a document sets, its specification looked up where an equal one was created before."""
    before = blank_document(new)
    if not new.get("spec") or "spec" not in before:  # custom kinds: their schema may change
        return compare_documents(before, new, merge)
    rest, nothing = ({name: value for name, value in each.items() if name != "spec"} for each in (new, before))
    changed, removed = compare_documents(nothing, rest, merge)

    def work() -> Changes:
        return compare_documents({"spec": before["spec"]}, {"spec": new["spec"]}, merge)

    specification = _SPECIFICATIONS.get_or_compute((new["apiVersion"], new["kind"], new["spec"]), work)
    return Changes({**changed, **specification.changed}, {**removed, **specification.removed})


def _take_ownership(
    owners: FieldOwners, owner: FieldManager, changed: FieldSet, removed: FieldSet, now: str
) -> FieldOwners:
    """Ownership after `owner` changed and removed fields: no other manager owns those any more."""
    gone = field_union(changed, removed)
    left = {
        other: OwnedFields(field_difference(owned.fields, removed if other == owner else gone), owned.time)
        for other, owned in owners.items()
    }
    if changed:
        mine = left.get(owner)
        left[owner] = OwnedFields(field_union(mine.fields, changed) if mine else changed, now)
    return _limit_updaters({other: owned for other, owned in left.items() if owned.fields})


def _limit_updaters(owners: FieldOwners) -> FieldOwners:
    """Folds the oldest updaters of a version together when there are too many of them."""
    updaters = sorted((item for item in owners.items() if item[0].operation == "Update"), key=_entry_order)
    if len(updaters) <= MAX_UPDATERS:
        return owners
    result = dict(owners)
    excess = len(updaters) - MAX_UPDATERS
    for owner, owned in updaters[: excess + 1]:
        bucket = FieldManager(ANCIENT, "Update", owner.api_version, "")
        before = result.get(bucket)
        del result[owner]
        result[bucket] = OwnedFields(field_union(before.fields, owned.fields) if before else owned.fields, owned.time)
    return result
