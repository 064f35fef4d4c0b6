"""One door to the three patch formats that compute a new document from an old one.

In: the content type, the original document and the bytes of the patch. Out: the patched document; unchanged parts are
shared with the original, which is never changed, so treat both as read-only (`typed_documents.conform_to_kind` makes a
private copy).
Refusals are `ports.Invalid`: 400 for a patch that cannot be read, 422 for one that does not fit the document.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from restow.adapters.memory.documents.json_patch import MalformedPatch, PatchError, json_patch
from restow.adapters.memory.documents.merge_patch import merge_patch
from restow.adapters.memory.documents.merge_types import merge_types
from restow.adapters.memory.documents.request_errors import bad_request, unprocessable_entity
from restow.adapters.memory.documents.strategic_merge import StrategicError, strategic_merge
from restow.model.yaml_text import YamlError, load_documents
from restow.ports import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Invalid

_WORDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "a boolean"}
MAX_OPERATIONS = 10_000  # upstream refuses longer JSON patches with 413


def patched_document(
    content_type: str, original: dict[str, Any], patch: bytes, *, kind: str, group: str
) -> dict[str, Any]:
    """The document after a JSON, merge or strategic merge patch; server-side apply is `apply.server_side_apply`."""
    if content_type == JSON_PATCH:
        return _json_patch(original, parse_json(patch))
    if content_type == MERGE_PATCH:
        return merge_patch(original, _an_object(parse_json(patch)))  # type: ignore[no-any-return]
    if content_type == STRATEGIC_PATCH:
        return _strategic(original, _an_object(parse_json(patch)), kind=kind, group=group)
    raise _unsupported(content_type, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


def _json_patch(original: dict[str, Any], operations: Any) -> dict[str, Any]:
    if isinstance(operations, list) and len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise Invalid.because(413, "RequestEntityTooLarge", message)
    try:
        patched = json_patch(original, operations)
    except MalformedPatch as error:
        raise bad_request(f"error decoding patch: {error}") from None
    except PatchError as error:
        raise unprocessable_entity(str(error)) from None
    if not isinstance(patched, dict):
        raise unprocessable_entity("the patched document is not an object")
    return patched


def _strategic(original: dict[str, Any], patch: dict[str, Any], *, kind: str, group: str) -> dict[str, Any]:
    types = merge_types(group, kind)
    if types is None:
        raise _unsupported(STRATEGIC_PATCH, JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    try:
        return strategic_merge(original, patch, types)
    except StrategicError as error:
        raise bad_request(str(error)) from None


def _unsupported(content_type: str, *accepted: str) -> Invalid:
    message = (
        f"the body of the request was in an unknown format ({content_type}) - "
        f"accepted media types include: {', '.join(accepted)}"
    )
    return Invalid.because(415, "UnsupportedMediaType", message)


def parse_json(body: bytes) -> Any:
    """A JSON body, or 400 with the line and column where it breaks."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding patch: {_at_line(str(error), body)}") from None


def _at_line(message: str, body: bytes) -> str:
    match = re.search(r"\(byte (\d+)\)$", message)
    if match is None:
        return message
    before = body[: int(match[1])]
    column = len(before) - (before.rfind(b"\n") + 1) + 1
    line = before.count(b"\n") + 1
    return f"{message[: match.start()].rstrip()} at line {line} column {column}"


def parse_yaml(body: bytes) -> Any:
    """An apply patch, which is one YAML or JSON document; 400 with the position where it breaks."""
    if body.lstrip()[:1] == b"{":
        return parse_json(body)
    try:
        documents = [value for _, value in load_documents(body.decode())]
    except (YamlError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if len(documents) != 1:
        raise bad_request(f"error decoding YAML: expected one document, found {len(documents)}")
    return documents[0]


def _an_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise bad_request(f"error decoding patch: expected an object, found {_WORDS.get(type(value), 'null')}")
    return value
