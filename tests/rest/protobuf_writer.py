"""The inverse of the decoder, for tests: documents in Kubernetes' protobuf form, written with the same field tables."""

from __future__ import annotations

import base64
from typing import Any

from restow.adapters.rest.protobuf import MAGIC
from restow.adapters.rest.protobuf_fields import ProtobufField, message_name, message_tables
from restow.model.times import parse_time


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def block(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def body(document: dict[str, Any]) -> bytes:
    """A whole request body."""
    api_version, kind = document["apiVersion"], document["kind"]
    name = message_name(api_version, kind)
    assert name is not None
    type_meta = block(1, api_version.encode()) + block(2, kind.encode())
    return MAGIC + block(1, type_meta) + block(2, message(document, name)) + block(3, b"") + block(4, b"")


def message(value: Any, name: str) -> bytes:
    match name:
        case "resource.Quantity":
            return block(1, value.encode())
        case "util.intstr.IntOrString":
            if isinstance(value, int):
                return b"\x08\x00\x10" + varint(value) + block(3, b"")
            return b"\x08\x01\x10\x00" + block(3, value.encode())
        case "meta.v1.Time" | "meta.v1.MicroTime":
            seconds = parse_time(value)
            return b"\x08" + varint(int(seconds // 1)) + b"\x10" + varint(round(seconds % 1 * 1e6) * 1000)
        case "authorization.v1.ExtraValue":
            return b"".join(block(1, item.encode()) for item in value)
    out = b""
    for number, field in message_tables()[name].items():
        if field.inline:
            out += block(number, message(value, field.type))
        elif field.name in value:
            out += _member(number, field, value[field.name])
    return out


def _member(number: int, field: ProtobufField, value: Any) -> bytes:
    if field.shape == "list":
        return b"".join(_one(number, field, item) for item in value)
    if field.shape == "map":
        return b"".join(block(number, block(1, key.encode()) + _one(2, field, item)) for key, item in value.items())
    return _one(number, field, value)


def _one(number: int, field: ProtobufField, value: Any) -> bytes:
    match field.type:
        case "string":
            return block(number, value.encode())
        case "bytes":
            return block(number, base64.b64decode(value))
        case "bool" | "int32" | "int64":
            return varint(number << 3) + varint(int(value))
    return block(number, message(value, field.type))
