"""Deletion: at once, after a grace period, or when the last finalizer is gone.

    alive --delete--> deleting (deletionTimestamp set) --finalizers empty and grace over--> removed
      \\______________ no finalizers and no grace ______________________________________/

Only pods have a grace period. Propagation policies become finalizers (`orphan`, `foregroundDeletion`) that the garbage
collector answers.
"""

from __future__ import annotations

from typing import Any

import msgspec

from restow.adapters.memory import errors, query_parameters, request_bodies
from restow.adapters.memory.list_selection import Selection
from restow.adapters.memory.listing import existing_object
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State, set_condition
from restow.adapters.memory.store import Stored, encode_json
from restow.model.objects import Document
from restow.model.times import format_time, parse_time
from restow.ports import Request, Response

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
LATEST = 253_402_300_799  # 9999-12-31T23:59:59Z, the last moment that can be written
IMMORTAL_NAMESPACES = ("default", "kube-public", "kube-system")

_FINALIZER_OF: dict[str, list[str]] = {"Foreground": [FOREGROUND], "Background": [], "Orphan": [ORPHAN]}


_TERMINATING = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionPending",
    "message": "the objects of this definition are deleted first",
}


class Preconditions(msgspec.Struct, frozen=True, rename={"version": "resourceVersion"}):
    uid: str | None = None
    version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    dry_run: list[str] | None = None

    @property
    def is_dry_run(self) -> bool:
        return bool(self.dry_run)

    @property
    def policy(self) -> str | None:
        if self.orphan_dependents is None:
            return self.propagation_policy
        return "Orphan" if self.orphan_dependents else "Background"

    def check(self) -> None:
        causes = []
        if self.orphan_dependents is not None and self.propagation_policy is not None:
            why = "orphanDependents and deletionPropagation cannot be both set"
            causes.append(errors.invalid_value("propagationPolicy", self.propagation_policy, why))
        if self.propagation_policy not in (None, *_FINALIZER_OF):
            known = [*_FINALIZER_OF, "nil"]
            causes.append(errors.unsupported_value("propagationPolicy", str(self.propagation_policy), known))
        if self.dry_run not in (None, [], ["All"]):
            causes.append(errors.unsupported_value("dryRun", str(self.dry_run), ["All"]))
        if causes:
            raise errors.invalid_object("meta.k8s.io", "DeleteOptions", "", causes)


class DeletionOutcome(msgspec.Struct, frozen=True):
    """The object after the deletion, and whether it was removed."""

    body: bytes
    removed: bool


def read_options(request: Request) -> DeleteOptions:
    """From the body, or else from the query: with a body, kube-apiserver does not even look for dryRun in the query."""
    if request.body.strip():
        return convert_options(request_bodies.decode_body(request.body, "DeleteOptions"))
    asked = {
        "gracePeriodSeconds": query_parameters.integer_parameter(request.query, "gracePeriodSeconds"),
        "propagationPolicy": request.query.get("propagationPolicy") or None,
        "orphanDependents": query_parameters.boolean_parameter(request.query, "orphanDependents"),
        "dryRun": ["All"] if query_parameters.dry_run(request) else None,
    }
    return convert_options(asked)


def convert_options(document: Any) -> DeleteOptions:
    try:
        read = msgspec.convert(document, DeleteOptions)
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"DeleteOptions: {error}") from None
    read.check()
    return read


def delete_object(state: State, served: ResourceType, request: Request) -> Response:
    stored = existing_object(state.collection(served), served, request)
    wanted = read_options(request)
    outcome = delete_stored_object(state, served, stored, wanted)
    if outcome.removed and not served.returns_deleted:
        return Response(body=_success_status(served, stored))
    accepted = not outcome.removed and wanted.orphan_dependents is False
    return Response(body=outcome.body, code=202 if accepted else 200)


def delete_collection(state: State, served: ResourceType, request: Request) -> Response:
    collection = state.collection(served)
    selection = Selection(collection, request.namespace, request.query)
    wanted = read_options(request)
    chosen = [stored for stored in collection.within(request.namespace) if selection.matches(stored)]
    gone = [delete_stored_object(state, served, stored, wanted).body for stored in chosen]
    return Response(body=served.list_body({"resourceVersion": str(state.store.version)}, gone))


def delete_stored_object(state: State, served: ResourceType, stored: Stored, wanted: DeleteOptions) -> DeletionOutcome:
    """Mark one object for deletion, and remove it if neither grace period nor finalizers block that."""
    # 1. Whether it may be deleted.
    check_preconditions(served, stored, wanted)
    _check_namespace(served, stored)
    # 2. How it is marked: grace period, finalizers of the propagation policy, timestamp.
    document = stored.document()
    before = dict(document["metadata"])
    grace = _remaining_grace(served, document, wanted)
    if grace and stored.deleting and grace == before["deletionGracePeriodSeconds"]:
        # Already terminating, and the grace period is not shortened: no write, so that watches see no event.
        return DeletionOutcome(served.render(stored), False)
    _set_finalizers(served, document["metadata"], wanted.policy, first=not stored.deleting)
    _mark_terminating(state, served, document, grace)
    gone = not is_blocked(document)
    if wanted.is_dry_run:
        return DeletionOutcome(encode_json(served.outward(document)), gone)
    # 3. Write the marks. An object removed at once needs none; a pod shows its timestamp in a last MODIFIED.
    collection = state.collection(served)
    if document["metadata"] != before and (not gone or _has_grace(served)):
        stored = state.store.put(collection, document)
    # 4. Remove it.
    if gone:
        stored = state.store.remove(collection, stored)
    return DeletionOutcome(served.render(stored), gone)


def is_deletion_complete(document: Document) -> bool:
    """Whether an object is marked for deletion and nothing blocks its removal."""
    return "deletionTimestamp" in document["metadata"] and not is_blocked(document)


def is_blocked(document: Document) -> bool:
    """Whether finalizers or a grace period block the removal; for namespaces also the finalizers in spec."""
    metadata = document["metadata"]
    if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return True
    return _is_blocked_by_content(document)


def _is_blocked_by_content(document: Document) -> bool:
    return document["kind"] == "Namespace" and bool((document.get("spec") or {}).get("finalizers"))


def check_preconditions(served: ResourceType, stored: Stored, wanted: DeleteOptions) -> None:
    must = wanted.preconditions
    if must is None:
        return
    if must.uid is not None and must.uid != stored.uid:
        why = (
            f"the UID in the precondition ({must.uid}) does not match the UID in record ({stored.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict_error(served.kind, served.group, stored.name, why)
    if must.version is not None and must.version != str(stored.version):
        why = (
            f"the ResourceVersion in the precondition ({must.version}) does not match the ResourceVersion in record "
            f"({stored.version}). The object might have been modified"
        )
        raise errors.conflict_error(served.kind, served.group, stored.name, why)


def _check_namespace(served: ResourceType, stored: Stored) -> None:
    if served.collection != "namespaces":
        return
    if stored.name in IMMORTAL_NAMESPACES:
        raise errors.forbidden_error("namespaces", "", stored.name, "this namespace may not be deleted")
    if stored.deleting and _is_blocked_by_content(stored.document()):
        why = (
            "The system is ensuring all content is removed from this namespace.  "
            "Upon completion, this namespace will automatically be purged by the system."
        )
        raise errors.conflict_error("namespaces", "", stored.name, why)


def _remaining_grace(served: ResourceType, document: Document, wanted: DeleteOptions) -> int:
    """Seconds left to the object; a deletion under way can only be shortened."""
    metadata = document["metadata"]
    asked = wanted.grace_period_seconds
    if asked is not None and asked < 0:
        asked = 1  # as kube-apiserver does: 0 means to force the deletion, and a negative number does not ask for that
    if "deletionTimestamp" in metadata:
        running = metadata.get("deletionGracePeriodSeconds") or 0
        return running if asked is None or asked >= running else asked
    if not _has_grace(served):
        return 0
    # No kubelet has to stop the containers of a pod that is on no node or has ended.
    spec = document["spec"]
    if not spec.get("nodeName") or document.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    period: int = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return max(period, 1) if period else 0


def _has_grace(served: ResourceType) -> bool:
    return served.collection == "pods"


def _mark_terminating(state: State, served: ResourceType, document: Document, grace: int) -> None:
    """Set the deletion timestamp; an object that is removed at once and has no grace period needs none."""
    metadata = document["metadata"]
    if "deletionTimestamp" in metadata:
        _shorten_grace(state, metadata, grace)
    elif grace or _has_grace(served) or is_blocked(document):
        metadata["deletionTimestamp"] = format_time(min(state.clock.now() + grace, LATEST))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        if served.collection == "namespaces":
            document.setdefault("status", {})["phase"] = "Terminating"
        if served.collection == DEFINITIONS:
            set_condition(document.setdefault("status", {}), _TERMINATING, state.stamp())


def _shorten_grace(state: State, metadata: Document, grace: int) -> None:
    running = metadata.get("deletionGracePeriodSeconds") or 0
    if grace >= running:
        return
    # The shorter period counts from the first deletion, which was `running` seconds before the timestamp.
    end = parse_time(metadata["deletionTimestamp"])
    moment = end - running + grace if end < LATEST else state.clock.now() + grace
    metadata["deletionTimestamp"] = format_time(min(max(moment, state.clock.now()), LATEST))
    metadata["deletionGracePeriodSeconds"] = grace


def _set_finalizers(served: ResourceType, metadata: Document, policy: str | None, *, first: bool) -> None:
    """Set the finalizer of the propagation policy, and remove those of other policies; definitions get their own."""
    finalizers = list(metadata.get("finalizers") or ())
    # ReplicationControllers are older than garbage collection: without a policy their pods stay, as they always did.
    if policy is None and served.collection == "replicationcontrollers" and not {ORPHAN, FOREGROUND} & {*finalizers}:
        policy = "Orphan"
    if policy is not None:
        finalizers = [each for each in finalizers if each not in (ORPHAN, FOREGROUND)] + _FINALIZER_OF[policy]
    if first and served.collection == DEFINITIONS:
        finalizers.append(CLEANUP)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _success_status(served: ResourceType, stored: Stored) -> bytes:
    details = {"name": stored.name, "kind": served.plural, "uid": stored.uid}
    if served.group:
        details["group"] = served.group
    return encode_json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
