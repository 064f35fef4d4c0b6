"""Reading request bodies: not too large, of a known media type, and protobuf or YAML turned into JSON.

In: the HTTP request. Out: the bytes and their media type, as `ports.Request` wants them. What the bytes mean is for
the API server to judge. Unknown media types are refused even where the bytes might be JSON: a web page can send
`text/plain` to other sites without asking, `application/json` it cannot.
"""

from __future__ import annotations

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from restow.adapters.memory import errors
from restow.adapters.memory.documents.patching import parse_yaml
from restow.adapters.memory.request_bodies import BODY_LIMIT
from restow.adapters.rest.protobuf import MEDIA_TYPE, ProtobufError, UnknownKind, decode_body
from restow.ports import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Invalid

YAML = "application/yaml"
OBJECT_TYPES = (JSON, YAML, MEDIA_TYPE)
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)


async def read_body(request: web.BaseRequest) -> tuple[bytes, str]:
    """The body and its media type; an absent media type means JSON."""
    data = await _read(request) if request.can_read_body else b""
    media_type = request.headers.get("Content-Type", "").split(";")[0].strip().lower() or JSON
    if request.method == "PATCH":
        if media_type not in PATCH_TYPES:
            raise errors.unsupported_media(PATCH_TYPES)
        return data, media_type
    if not data:
        return data, JSON
    if media_type not in OBJECT_TYPES:
        raise errors.unsupported_media(OBJECT_TYPES)
    if media_type == MEDIA_TYPE:
        data = _from_protobuf(data)
    elif media_type == YAML:
        data = msgspec.json.encode(parse_yaml(data))
    return data, JSON


async def _read(request: web.BaseRequest) -> bytes:
    if (request.content_length or 0) > BODY_LIMIT:
        raise errors.too_large_body(BODY_LIMIT)
    data = bytearray()
    try:
        async for chunk in request.content.iter_any():
            data += chunk
            if len(data) > BODY_LIMIT:
                raise errors.too_large_body(BODY_LIMIT)
    except (BadHttpMessage, web.RequestPayloadError) as error:
        raise errors.bad_request(f"the body cannot be read: {error}") from None
    return bytes(data)


def _from_protobuf(data: bytes) -> bytes:
    try:
        return msgspec.json.encode(decode_body(data))
    except UnknownKind as error:
        raise Invalid.because(415, "UnsupportedMediaType", str(error)) from None
    except ProtobufError as error:
        raise errors.bad_request(f"the protobuf body cannot be read: {error}") from None
