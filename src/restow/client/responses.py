"""Reading what servers answer when it is not simply one object: pages of lists, odd objects, failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from restow.model.objects import MetadataOnly, ObjectList
from restow.model.wire import WireError, decode
from restow.ports import Status

D = TypeVar("D")


class Unreadable(msgspec.Struct, frozen=True):
    """An object, by (namespace, name), whose form is not what its kind promises, and why."""

    key: tuple[str, str]
    error: str


def read_page(type_: type[D], body: bytes, what: str, unreadable: Callable[[Unreadable], None] | None) -> ObjectList[D]:
    """One page of a list. Odd objects are told to `unreadable` and left out; without it they are a WireError."""
    page_type = cast("type[ObjectList[D]]", ObjectList[type_])  # type: ignore[valid-type]
    try:
        return decode(page_type, body, what)
    except WireError:
        if unreadable is None:
            raise
    raw = decode(ObjectList[msgspec.Raw], body, what)
    items: list[D] = []
    for item in raw.items or ():
        try:
            items.append(decode(type_, item, what))
        except WireError as error:
            unreadable(unreadable_of(item, error))
    return ObjectList(metadata=raw.metadata, items=items)


def unreadable_of(item: msgspec.Raw, error: WireError) -> Unreadable:
    """Name an odd object as well as its metadata allows."""
    try:
        meta = decode(MetadataOnly, item).metadata
    except WireError:
        return Unreadable(("", ""), str(error))
    return Unreadable((meta.namespace or "", meta.name), str(error))


def read_status(body: bytes, code: int) -> Status:
    """The Status in a failure's body; whatever else a server or proxy sent becomes the message of one."""
    try:
        return decode(Status, body)
    except WireError:
        text = " ".join(body.decode("utf-8", "replace").split())
        return Status(code=code, message=text[:500] or f"HTTP {code} without a body")
