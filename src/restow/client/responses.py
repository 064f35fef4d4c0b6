"""Decoding responses that are not a single object: pages of lists, objects that do not fit their kind, failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from restow.model.objects import MetadataOnly, ObjectList
from restow.model.wire import WireError, decode_object
from restow.ports import Status

D = TypeVar("D")


class Unreadable(msgspec.Struct, frozen=True):
    """An object, by (namespace, name), that cannot be decoded as its kind, and the error."""

    key: tuple[str, str]
    error: str


def read_page(type_: type[D], body: bytes, what: str, unreadable: Callable[[Unreadable], None] | None) -> ObjectList[D]:
    """One page of a list. Objects that cannot be decoded are reported to `unreadable` and left out; without it, raises
    WireError."""
    page_type = cast("type[ObjectList[D]]", ObjectList[type_])  # type: ignore[valid-type]
    try:
        return decode_object(page_type, body, what)
    except WireError:
        if unreadable is None:
            raise
    raw = decode_object(ObjectList[msgspec.Raw], body, what)
    items: list[D] = []
    for item in raw.items or ():
        try:
            items.append(decode_object(type_, item, what))
        except WireError as error:
            unreadable(unreadable_of(item, error))
    return ObjectList(metadata=raw.metadata, items=items)


def unreadable_of(item: msgspec.Raw, error: WireError) -> Unreadable:
    """The name of an object that cannot be decoded, as far as its metadata can be."""
    try:
        meta = decode_object(MetadataOnly, item).metadata
    except WireError:
        return Unreadable(("", ""), str(error))
    return Unreadable((meta.namespace or "", meta.name), str(error))


def read_status(body: bytes, code: int) -> Status:
    """The Status in the body of a failure. Other text, as proxies send it, becomes the message of a Status."""
    try:
        return decode_object(Status, body)
    except WireError:
        text = " ".join(body.decode("utf-8", "replace").split())
        return Status(code=code, message=text[:500] or f"HTTP {code} without a body")
