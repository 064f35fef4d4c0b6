"""Request bodies in Kubernetes' protobuf form, as the JSON documents they stand for.

kubectl 1.32 and newer create objects with `application/vnd.kubernetes.protobuf`: four magic bytes, then a
`runtime.Unknown` holding the kind and the encoded object. In: such a body. Out: the document with the same meaning, in
which zero values are left out wherever Go's JSON would leave them out. Answers stay JSON, which every client accepts.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from restow.adapters.rest.protobuf_fields import ProtobufField, message_name, message_tables
from restow.model.objects import Document
from restow.model.times import LAST_SECOND, format_micro_time, format_time

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 64


class ProtobufError(ValueError):
    """The bytes are not what they claim to be."""


class UnknownKind(ProtobufError):
    """A kind without a field table: the client has to send JSON."""


def decode_body(body: bytes) -> Document:
    """The object in a protobuf request body, as its JSON document."""
    if not body.startswith(MAGIC):
        raise ProtobufError("the body does not begin with the magic bytes k8s\\0")
    api_version, kind, raw = _unknown(body[len(MAGIC) :])
    name = message_name(api_version, kind)
    if name is None:
        raise UnknownKind(f"no protobuf form of kind {kind!r} in {api_version!r} is known here, send JSON")
    return {"apiVersion": api_version, "kind": kind, **_message(raw, name, 0)}


def _unknown(data: bytes) -> tuple[str, str, bytes]:
    """(apiVersion, kind, raw) of a runtime.Unknown."""
    api_version, kind, raw = "", "", b""
    for number, _, value in _fields(data):
        if number == 1:
            for inner, _, text in _fields(_expect_bytes(value)):
                if inner == 1:
                    api_version = _text(_expect_bytes(text))
                elif inner == 2:
                    kind = _text(_expect_bytes(text))
        elif number == 2:
            raw = _expect_bytes(value)
        elif number == 3 and _expect_bytes(value):
            raise ProtobufError("an encoded runtime.Unknown is not supported")
    return api_version, kind, raw


def _message(data: bytes, name: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ProtobufError(f"nested more than {MAX_DEPTH} levels deep")
    if (special := SPECIAL.get(name)) is not None:
        return special(data)
    message = message_tables()[name]
    document: Document = {}
    for number, wire, value in _fields(data):
        if (field := message.get(number)) is not None:
            _place(document, field, wire, value, depth)
    for field in message.values():
        if not field.keep_zero and field.shape == "one" and field.name in document and not document[field.name]:
            del document[field.name]
    return {name: value for name, value in document.items() if value is not None}


def _place(document: Document, field: ProtobufField, wire: int, value: int | bytes, depth: int) -> None:
    if field.shape == "map":
        key, entry = _entry(_expect_bytes(value), field, depth)
        document.setdefault(field.name, {})[key] = entry
    elif field.shape == "list":
        items = document.setdefault(field.name, [])
        if wire == LENGTH and field.type in NUMBERS:
            items.extend(_number(field.type, item) for item in _varints(_expect_bytes(value)))
        else:
            items.append(_value(field, wire, value, depth))
    elif field.inline:
        document.update(_value(field, wire, value, depth))
    else:
        document[field.name] = _value(field, wire, value, depth)


def _entry(data: bytes, field: ProtobufField, depth: int) -> tuple[str, Any]:
    key, entry = "", _zero(field, depth)
    for number, wire, value in _fields(data):
        if number == 1:
            key = _text(_expect_bytes(value))
        elif number == 2:
            entry = _value(field, wire, value, depth)
    return key, entry


def _zero(field: ProtobufField, depth: int) -> Any:
    if field.type in NUMBERS:
        return _number(field.type, 0)
    return _value(field, LENGTH, b"", depth)


def _value(field: ProtobufField, wire: int, value: int | bytes, depth: int) -> Any:
    if field.type in NUMBERS:
        if wire != VARINT or isinstance(value, bytes):
            raise ProtobufError(f"{field.name}: expected a number, got wire type {wire}")
        return _number(field.type, value)
    if field.type == "double":
        if wire != FIXED64 or isinstance(value, bytes):
            raise ProtobufError(f"{field.name}: expected a double, got wire type {wire}")
        return struct.unpack("<d", struct.pack("<Q", value))[0]
    if isinstance(value, int):
        raise ProtobufError(f"{field.name}: expected {field.type}, got wire type {wire}")
    if field.type == "string":
        return _text(value)
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    return _message(value, field.type, depth + 1)


# --- the wire format ---------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Every (field number, wire type, value) of an encoded message."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == VARINT:
            value, position = _varint(data, position)
        elif wire == LENGTH:
            size, position = _varint(data, position)
            value, position = _slice(data, position, size)
        elif wire in (FIXED64, FIXED32):
            chunk, position = _slice(data, position, 8 if wire == FIXED64 else 4)
            value = int.from_bytes(chunk, "little")
        else:
            raise ProtobufError(f"wire type {wire} is not used by Kubernetes")
        if number == 0:
            raise ProtobufError("field number 0")
        yield number, wire, value


def _slice(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    if size > len(data) - position:
        raise ProtobufError("the message ends inside a field")
    return data[position : position + size], position + size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while shift < 70:
        if position >= len(data):
            raise ProtobufError("the message ends inside a number")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise ProtobufError("a number is longer than ten bytes")


def _varints(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _number(type_name: str, value: int) -> int | bool:
    if type_name == "bool":
        return value != 0
    bits, signed = NUMBERS[type_name]
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _expect_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("a number stands where a message is expected")
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"a string is not UTF-8: {error}") from None


NUMBERS = {"bool": (1, False), "int32": (32, True), "int64": (64, True), "uint32": (32, False), "uint64": (64, False)}


# --- messages whose JSON form is not an object -------------------------------------------------------------------


def _single(data: bytes, number: int) -> bytes:
    raw = b""
    for field, _, value in _fields(data):
        if field == number:
            raw = _expect_bytes(value)
    return raw


def _quantity(data: bytes) -> str:
    return _text(_single(data, 1)) or "0"


def _int_or_string(data: bytes) -> int | str:
    kind, number, text = 0, 0, ""
    for field, _, value in _fields(data):
        if field == 3:
            text = _text(_expect_bytes(value))
        elif isinstance(value, bytes):
            raise ProtobufError("IntOrString: a string stands where a number is expected")
        elif field == 1:
            kind = value
        elif field == 2:
            number = int(_number("int32", value))
    return text if kind == 1 else number


def _timestamp(data: bytes, form: Callable[[float], str]) -> str | None:
    """Absent bytes are Go's zero time, which JSON leaves out."""
    if not data:
        return None
    seconds = nanos = 0
    for field, _, value in _fields(data):
        if isinstance(value, bytes):
            raise ProtobufError("Time: a message stands where a number is expected")
        if field == 1:
            seconds = int(_number("int64", value))
        elif field == 2:
            nanos = int(_number("int32", value))
    outside = f"Time: {seconds} seconds are outside the calendar"
    if seconds > LAST_SECOND:
        raise ProtobufError(outside)
    try:
        return form(seconds + nanos / 1e9)
    except (OverflowError, ValueError, OSError):
        raise ProtobufError(outside) from None


def _raw_json(data: bytes) -> Any:
    raw = _single(data, 1)
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, RecursionError):
        raise ProtobufError("an embedded document is not JSON") from None


def _items(data: bytes) -> list[str]:
    return [_text(_expect_bytes(value)) for number, _, value in _fields(data) if number == 1]


SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "resource.Quantity": _quantity,
    "util.intstr.IntOrString": _int_or_string,
    "meta.v1.Time": lambda data: _timestamp(data, format_time),
    "meta.v1.MicroTime": lambda data: _timestamp(data, format_micro_time),
    "meta.v1.FieldsV1": _raw_json,
    "runtime.RawExtension": _raw_json,
    "meta.v1.Verbs": _items,
    "authentication.v1.ExtraValue": _items,
    "authorization.v1.ExtraValue": _items,
    "certificates.v1.ExtraValue": _items,
}
