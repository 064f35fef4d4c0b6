"""Request bodies: bytes in, a checked document out.

The kind is checked against the resource, unknown fields are dropped and reported as fieldValidation asks, and values of
a wrong type are refused, before anything else looks at the document.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec

from restow.adapters.memory import errors
from restow.adapters.memory.documents import typed_documents
from restow.adapters.memory.documents.typed_documents import conform_to_kind
from restow.adapters.memory.resources import ResourceType
from restow.model import wire
from restow.model.objects import Document, ObjectMeta
from restow.ports import Request

BODY_LIMIT = 3 * 1024 * 1024


def check_size(request: Request) -> None:
    if len(request.body) > BODY_LIMIT:
        raise errors.too_large_body(BODY_LIMIT)


def decode_body(body: bytes, what: str) -> Document:
    """A JSON object, or 400 that says where the text breaks."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"the body is not the JSON of a {what}: {error}") from None
    if not isinstance(value, dict):
        raise errors.bad_request(f"the body is not a {what}: expected an object, got {type(value).__name__}")
    return value


def read_object(served: ResourceType, request: Request) -> Document:
    document = decode_body(request.body, served.kind)
    check_kind(served, document)
    if request.query.get("fieldValidation") == "Strict":
        _report(served, _repeated_fields(request.body), "Strict")
    return document


class _Pairs(dict[str, Any]):
    """A JSON object that remembers which names came twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.repeated = [name for name, count in counts.items() if count > 1]


def _repeated_fields(body: bytes) -> list[str]:
    repeated: list[str] = []

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Pairs):
            repeated.extend(f'duplicate field "{path}{name}"' for name in value.repeated)
            for name, member in value.items():
                walk(member, f"{path}{name}.")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                walk(item, f"{path.removesuffix('.')}[{number}].")

    walk(json.loads(body, object_pairs_hook=_Pairs), "")
    return repeated


def read_as(request: Request, group: str, kind: str) -> Document:
    """The body of a subresource that speaks another kind than its resource: Binding, Eviction, Scale."""
    return conform_to_kind(decode_body(request.body, kind), group=group, kind=kind).document


def check_kind(served: ResourceType, document: Document) -> None:
    """Built-ins may leave kind and apiVersion out, as the path says them; custom resources may not."""
    if served.custom is not None and not document.get("kind"):
        raise errors.bad_request("Object 'Kind' is missing in the body")
    api_version = document.setdefault("apiVersion", served.api_version) or served.api_version
    kind = document.setdefault("kind", served.kind) or served.kind
    document["apiVersion"], document["kind"] = api_version, kind
    if api_version != served.api_version:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match "
            f"the expected API version ({served.api_version})"
        )
    if kind != served.kind:
        raise errors.bad_request(
            f'{kind} in version "{served.version}" cannot be handled as a {served.kind}: the kinds do not match'
        )
    metadata = document.get("metadata")
    if metadata is None:
        document["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise errors.bad_request(f"metadata: expected an object, got {type(metadata).__name__}")


def to_stored_form(served: ResourceType, document: Document, validation: str) -> tuple[Document, tuple[str, ...]]:
    """The stored form with known fields only, and the warnings about the others."""
    stored = served.inward(document)
    if served.custom is None:
        shaped, unknown = conform_to_kind(stored, group="" if served.conversion else served.group, kind=served.kind)
        warnings = _report(served, unknown, validation)
    else:
        _check_metadata(stored)
        warnings = _report(served, served.custom.prune(stored), validation)
        shaped = stored
    if not isinstance(shaped.get("metadata"), dict):
        shaped["metadata"] = {}
    return shaped, warnings


def _check_metadata(document: Document) -> None:
    """A custom resource's metadata is typed like any other; its schema does not speak of it."""
    metadata = {name: value for name, value in document["metadata"].items() if value is not None}
    for name in ("labels", "annotations"):
        if isinstance(metadata.get(name), dict):  # where a text must stand, null is the empty one
            metadata[name] = {key: "" if value is None else value for key, value in metadata[name].items()}
    document["metadata"] = metadata
    try:
        msgspec.convert(metadata, ObjectMeta)
    except msgspec.ValidationError as refusal:
        try:
            wire.convert_document(ObjectMeta, metadata, "metadata")  # slower, and names every wrong field
        except wire.WireError as error:
            raise errors.bad_request(str(error)) from None
        raise errors.bad_request(f"metadata: {refusal}") from None


def unknown_fields(served: ResourceType, document: Document, validation: str) -> tuple[str, ...]:
    """What to warn about in a document that is taken as it is; 400 when validation is Strict."""
    if validation == "Ignore":
        return ()
    if served.custom is not None:
        return _report(served, served.custom.unknown_fields(document), validation)
    return _report(served, typed_documents.unknown_fields(document, group=served.group, kind=served.kind), validation)


def _report(served: ResourceType, unknown: list[str], validation: str) -> tuple[str, ...]:
    if unknown and validation == "Strict":
        raise errors.bad_request(
            f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: '
            f"strict decoding error: {', '.join(unknown)}"
        )
    return tuple(unknown) if validation == "Warn" else ()
