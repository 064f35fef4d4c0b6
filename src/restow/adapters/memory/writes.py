"""Create, replace and patch: the story of one write, from the body to the store.

    read the body -> fields that only the server sets -> defaults -> admission -> validation -> managedFields -> store

No step awaits, so a write is atomic. A dry run takes all steps but the last.
"""

from __future__ import annotations

from typing import Any

import msgspec

from restow.adapters.memory import admission, deletion, errors, query_parameters, request_bodies
from restow.adapters.memory.documents.builtins import apply_defaults, validate_builtin
from restow.adapters.memory.documents.merge_types import MergeTypes, merge_types
from restow.adapters.memory.documents.patching import parse_yaml, patched_document
from restow.adapters.memory.documents.server_side_apply import server_side_apply, track_update
from restow.adapters.memory.listing import existing_object
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State
from restow.adapters.memory.store import Stored, encode_json
from restow.model.objects import Document
from restow.ports import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request, Response, StatusCause

_NAME_TRIES = 8
_SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_UNTYPED = MergeTypes("any")


class Write(msgspec.Struct, frozen=True):
    """One write under way: the resource, the field manager and the options of the request."""

    state: State
    served: ResourceType
    manager: str
    dry_run: bool
    validation: str
    subresource: str | None = None

    @classmethod
    def of(cls, state: State, served: ResourceType, request: Request) -> Write:
        return cls(
            state,
            served,
            query_parameters.field_manager(request),
            query_parameters.dry_run(request),
            query_parameters.field_validation(request),
            request.subresource,
        )

    @property
    def group(self) -> str:
        """The group the stored form is validated as."""
        return "" if self.served.conversion and self.served.custom is None else self.served.group

    @property
    def merge(self) -> MergeTypes:
        if self.served.custom is not None:
            return self.served.custom.merge
        return merge_types(self.group, self.served.kind) or _UNTYPED


def create_object(state: State, served: ResourceType, request: Request) -> Response:
    write = Write.of(state, served, request)
    document, warnings = request_bodies.to_stored_form(
        served, request_bodies.read_object(served, request), write.validation
    )
    return Response(body=insert_object(write, document, request.namespace), code=201, warnings=warnings)


def insert_object(write: Write, document: Document, namespace: str | None, *, tracked: bool = False) -> bytes:
    """Create an object; returns its body. With `tracked`, managedFields are already those of this write."""
    state, served = write.state, write.served
    metadata = document["metadata"]
    # 1. The fields that only the server sets: namespace, UID, creation time, first generation.
    _set_namespace(metadata, namespace)
    if metadata.get("resourceVersion"):
        raise errors.internal_error("resourceVersion should not be set on objects to be created")
    metadata.pop("resourceVersion", None)
    _set_server_fields(write, document)
    # 2. Admission before and after defaulting: a first status, then what depends on other objects.
    admission.check_namespace(state, served, metadata)
    admission.prepare_new_object(state, served, document)
    _set_defaults(write, document)
    admission.complete_new_object(state, served, document)
    # 3. The name, perhaps generated, and validation, which needs it.
    _set_name(write, document)
    _raise_if_invalid(write, document, _validation_causes(write, document, None))
    # 4. managedFields, and the store.
    if not tracked:
        document = _with_managed_fields(write, None, document)
    if write.dry_run:
        return encode_json(served.outward(document))
    return served.render(state.store.put(state.collection(served), document))


def _set_namespace(metadata: Document, namespace: str | None) -> None:
    """The path decides the namespace; a body with another namespace is refused."""
    given = metadata.get("namespace")
    if namespace is None:
        metadata.pop("namespace", None)
    elif given and given != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    else:
        metadata["namespace"] = namespace


def _set_server_fields(write: Write, document: Document) -> None:
    """Set the fields of a new object that only the server may set."""
    served, metadata = write.served, document["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = write.state.new_uid()
    metadata["creationTimestamp"] = write.state.stamp()
    if served.counts_generation:
        metadata["generation"] = 1
    if served.has_status and not served.status_on_create:
        document.pop("status", None)


def _set_name(write: Write, document: Document) -> None:
    state, served, metadata = write.state, write.served, document["metadata"]
    collection, namespace = state.collection(served), metadata.get("namespace", "")
    if name := metadata.get("name"):
        if present := collection.get(namespace, name):
            raise errors.already_exists(served.plural, served.group, name, deleting=present.deleting)
        return
    base = metadata.get("generateName")
    if not base:
        cause = errors.required_value("metadata.name", "name or generateName is required")
        raise errors.invalid_object(served.group, served.kind, "", [cause])
    for _ in range(_NAME_TRIES):
        metadata["name"] = state.generated_name(base)
        if not collection.get(namespace, metadata["name"]):
            return
    raise errors.already_exists(served.plural, served.group, metadata["name"], generated=True)


def replace_object(state: State, served: ResourceType, request: Request) -> Response:
    write = Write.of(state, served, request)
    sent = request_bodies.read_object(served, request)
    _check_named(sent, request)
    document, warnings = request_bodies.to_stored_form(served, sent, write.validation)
    collection = state.collection(served)
    stored = collection.get(request.namespace or "", request.name or "")
    if stored is None and served.create_on_update and not request.subresource:
        if uid := document["metadata"].get("uid"):
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            raise errors.conflict_error(served.plural, served.group, request.name or "", why)
        document["metadata"].pop("resourceVersion", None)
        return Response(body=insert_object(write, document, request.namespace), code=201, warnings=warnings)
    stored = existing_object(collection, served, request)
    _check_uid(served, stored, document["metadata"].get("uid"))
    version = document["metadata"].get("resourceVersion")
    if not version and not served.unconditional_update:
        cause = errors.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid_object(served.group, served.plural, stored.name, [cause])
    check_version(served, stored, version)
    return Response(body=update_object(write, stored, stored.document(), document), warnings=warnings)


def patch_object(state: State, served: ResourceType, request: Request) -> Response:
    if request.content_type == APPLY_PATCH:
        return _server_side_apply(state, served, request)
    accepted = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH) if served.custom is None else (JSON_PATCH, MERGE_PATCH)
    if request.content_type not in accepted:
        raise errors.unsupported_media((*accepted, APPLY_PATCH))
    if query_parameters.boolean_parameter(request.query, "force") is not None:
        why = "may not be specified for non-apply patch"
        raise query_parameters.invalid_patch_options([errors.forbidden_value("force", why)])
    write = Write.of(state, served, request)
    stored = existing_object(state.collection(served), served, request)
    old = stored.document()
    patched = _detached_copy(
        served,
        patched_document(request.content_type, served.outward(old), request.body, kind=served.kind, group=served.group),
    )
    request_bodies.check_kind(served, patched)
    _check_named(patched, request)
    document, warnings = request_bodies.to_stored_form(served, patched, write.validation)
    check_version(served, stored, document["metadata"].get("resourceVersion"))
    return Response(body=update_object(write, stored, old, document), warnings=warnings)


def _server_side_apply(state: State, served: ResourceType, request: Request) -> Response:
    write = Write.of(state, served, request)
    if not write.manager:
        raise query_parameters.invalid_patch_options(
            [errors.required_value("fieldManager", "is required for apply patch")]
        )
    # 1. Read the applied document; path and body must name the same object.
    applied = parse_yaml(request.body)
    if not isinstance(applied, dict):
        raise errors.bad_request("an apply patch is an object")
    for needed in ("apiVersion", "kind"):
        if not applied.get(needed):
            raise errors.bad_request(f"error decoding apply patch: {needed} must be set")
    request_bodies.check_kind(served, applied)
    applied["metadata"].setdefault("name", request.name)
    _check_named(applied, request)
    if applied["metadata"].get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    # 2. Compare it with the stored object, if there is one: preconditions, conflicts with other managers.
    stored = state.collection(served).get(request.namespace or "", request.name or "")
    if stored is None and request.subresource:
        raise errors.not_found(served.plural, served.group, request.name or "")
    if request.namespace is not None:
        applied["metadata"].setdefault("namespace", request.namespace)
    warnings = request_bodies.unknown_fields(served, applied, write.validation)
    intent = served.inward(applied)
    wanted_version = intent["metadata"].pop("resourceVersion", None)
    old = stored.document() if stored else None
    if stored:
        check_version(served, stored, wanted_version)
        _check_uid(served, stored, intent["metadata"].get("uid"))
    merged = server_side_apply(
        old,
        intent,
        manager=write.manager,
        force=bool(query_parameters.boolean_parameter(request.query, "force")),
        now=state.stamp(),
        merge=write.merge,
        subresource=request.subresource,
    )
    # 3. Write the result like any other document; its managedFields are complete already.
    document, _ = request_bodies.to_stored_form(served, served.outward(_detached_copy(served, merged)), "Ignore")
    if stored is None or old is None:
        return Response(
            body=insert_object(write, document, request.namespace, tracked=True), code=201, warnings=warnings
        )
    return Response(body=update_object(write, stored, old, document, tracked=True), warnings=warnings)


def update_object(write: Write, stored: Stored, old: Document, new: Document, *, tracked: bool = False) -> bytes:
    """Replace one version by the next; returns its body. `old` is the document of `stored`."""
    state, served = write.state, write.served
    # 1. The parts that this request cannot change keep their old values.
    _keep_other_parts(write, old, new)
    causes = _keep_server_fields(old["metadata"], new["metadata"])
    # 2. Defaults, admission and validation, as for a new object.
    _set_defaults(write, new)
    admission.keep_on_update(state, served, old, new, write.subresource)
    _raise_if_invalid(write, new, causes + _validation_causes(write, new, old))
    # 3. The generation, managedFields, and the store.
    if served.counts_generation and _generation_part(served, new) != _generation_part(served, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    if not tracked:
        new = _with_managed_fields(write, old, new)
    if write.dry_run:
        return encode_json(served.outward(new))
    return store_object(state, served, stored, old, new)


def _with_managed_fields(write: Write, old: Document | None, new: Document) -> Document:
    """The new document with managedFields of this write."""
    state = write.state
    if not state.track_fields:
        return new
    return track_update(
        old, new, manager=write.manager, now=state.stamp(), subresource=write.subresource, merge=write.merge
    )


def store_object(state: State, served: ResourceType, stored: Stored, old: Document, new: Document) -> bytes:
    """Store the next version, unless nothing changed. An object that is being deleted and now has neither finalizers
    nor a grace period is removed instead."""
    if new == old:
        return served.render(stored)
    collection = state.collection(served)
    if deletion.is_deletion_complete(new):
        new["metadata"]["resourceVersion"] = str(state.store.remove(collection, stored).version)
        return encode_json(served.outward(new))
    return served.render(state.store.put(collection, new))


def _check_named(document: Document, request: Request) -> None:
    metadata = document["metadata"]
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not name:
        raise errors.bad_request(
            f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
        )
    if name != request.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
    if request.namespace is None:
        metadata.pop("namespace", None)
    elif namespace and namespace != request.namespace:
        raise errors.bad_request(
            f"the namespace of the object ({namespace}) does not match "
            f"the namespace on the request ({request.namespace})"
        )
    else:
        metadata["namespace"] = request.namespace


def check_version(served: ResourceType, stored: Stored, version: Any) -> None:
    if version and version != str(stored.version):
        raise errors.modified_error(served.plural, served.group, stored.name)


def _check_uid(served: ResourceType, stored: Stored, uid: Any) -> None:
    if uid and uid != stored.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored.uid}"
        raise errors.conflict_error(served.plural, served.group, stored.name, why)


def _keep_other_parts(write: Write, old: Document, new: Document) -> None:
    """A status write changes the status, any other write everything else."""
    served = write.served
    if not served.has_status:
        return
    if write.subresource != "status":
        _copy_field(old, new, "status")
        return
    for name in [each for each in {**old, **new} if each not in ("status", "metadata", "kind", "apiVersion")]:
        _copy_field(old, new, name)
    if served.custom is not None:
        new["metadata"] = {**old["metadata"], "managedFields": new["metadata"].get("managedFields")}
        _drop_empty(new["metadata"], "managedFields")
    elif served.kind == "Pod":
        _copy_field(old["metadata"], new["metadata"], "ownerReferences")
    elif served.kind == "Deployment":
        _copy_field(old["metadata"], new["metadata"], "labels")


def _copy_field(old: Document, new: Document, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def _drop_empty(document: Document, name: str) -> None:
    if not document.get(name):
        document.pop(name, None)


def _keep_server_fields(old: Document, new: Document) -> list[StatusCause]:
    """Fields that only the server may set keep their values: a body without them is completed, one with other values is
    refused."""
    causes = []
    for name in _SERVER_FIELDS:
        if new.get(name) is None:
            _copy_field(old, new, name)
        elif new[name] != old.get(name):
            causes.append(errors.invalid_value(f"metadata.{name}", new[name], "field is immutable"))
    _copy_field(old, new, "generation")
    new["resourceVersion"] = old["resourceVersion"]
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            why = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(errors.forbidden_value("metadata.finalizers", why))
    return causes


def _set_defaults(write: Write, document: Document) -> None:
    if write.served.custom is not None:
        write.served.custom.apply_defaults(document)
    else:
        apply_defaults(document, group=write.group, kind=write.served.kind)


def _validation_causes(write: Write, document: Document, old: Document | None) -> list[StatusCause]:
    if write.served.custom is not None:
        return write.served.custom.validate(document, old)
    return validate_builtin(document, old, group=write.group, kind=write.served.kind, subresource=write.subresource)


def _raise_if_invalid(write: Write, document: Document, causes: list[StatusCause]) -> None:
    if causes:
        raise errors.invalid_object(
            write.served.group, write.served.kind, document["metadata"].get("name") or "", causes
        )


def _generation_part(served: ResourceType, document: Document) -> Any:
    """The part of a document whose changes the generation counts."""
    if served.custom is None and served.kind != "CustomResourceDefinition":
        annotations = document["metadata"].get("annotations") if served.kind == "Deployment" else None
        return document.get("spec"), annotations
    apart = ("metadata", "status") if served.has_status else ("metadata",)
    return {name: value for name, value in document.items() if name not in apart}


def _detached_copy(served: ResourceType, patched: Document) -> Document:
    """Patched documents share parts with what they were made from: a copy of all that is changed on the way in."""
    if served.custom is None:  # typed reading copies the rest
        metadata = patched.get("metadata")
        return {**patched, "metadata": dict(metadata) if isinstance(metadata, dict) else metadata}
    copy: Document = msgspec.json.decode(encode_json(patched))
    return copy
