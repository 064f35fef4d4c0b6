"""Answers in the form a client asked for.

In: what the API server said, as bytes, and the negotiated form. Out: the same bytes, a Table, or metadata only. Errors
and other Status documents keep their form.
"""

from __future__ import annotations

from typing import Any

import msgspec

from restow.adapters.memory.resources import ResourceType
from restow.adapters.rest.negotiation import TABLE, Form
from restow.adapters.rest.partial_metadata import partial_metadata, partial_metadata_list
from restow.adapters.rest.tables import Include, Printer, build_table, custom_printer, printer_of
from restow.adapters.rest.unchecked_documents import mapping, sequence, text
from restow.model.objects import Document
from restow.ports import ApiError, Invalid

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode


def include_of(query: Any) -> Include:
    match query.get("includeObject", ""):
        case "" | "Metadata":
            return "Metadata"
        case "Object":
            return "Object"
        case "None":
            return "None"
        case other:
            raise _bad_include(other)


def _bad_include(value: str) -> ApiError:
    message = f"includeObject: Unsupported value: {value!r}: supported values: Metadata, Object, None"
    return Invalid.because(400, "BadRequest", message)


class Renderer:
    """Turns the documents of one request into the form it asked for."""

    def __init__(self, form: Form, served: ResourceType, include: Include) -> None:
        self._form = form
        self._served = served
        self._include = include
        self._headers_sent = False

    def answer(self, body: bytes, now: float) -> bytes:
        document = _decode(body)
        return body if document.get("kind") == "Status" else _encode(self._render(document, now))

    def event(self, event: bytes, now: float) -> bytes:
        """A watch event; errors pass unchanged, and bookmarks carry nothing but a version."""
        document = _decode(event)
        kind, item = document["type"], document["object"]
        if kind == "ERROR":
            return event
        if kind == "BOOKMARK" and self._form.shape == TABLE:
            return _encode({"type": kind, "object": self._table([], mapping(item, "metadata"), now)})
        return _encode({"type": kind, "object": self._render(item, now)})

    def _render(self, document: Document, now: float) -> Document:
        is_list = isinstance(document.get("items"), list)
        if self._form.shape == TABLE:
            items = [self._with_kind(item) for item in sequence(document, "items")] if is_list else [document]
            return self._table(items, mapping(document, "metadata"), now)
        version = self._form.version
        return partial_metadata_list(document, version) if is_list else partial_metadata(document, version)

    def _with_kind(self, item: Document) -> Document:
        """Items of a list may leave out what the list says; alone in a row they may not."""
        return {"kind": self._served.kind, "apiVersion": self._served.api_version, **item}

    def _table(self, items: list[Document], metadata: Document, now: float) -> Document:
        headers, self._headers_sent = not self._headers_sent, True
        return build_table(
            items,
            metadata,
            self._printer(items),
            now=now,
            include=self._include,
            version=self._form.version,
            headers=headers,
        )

    def _printer(self, items: list[Document]) -> Printer:
        """By what the objects are: a subresource may answer with another kind than the resource has."""
        kind = text(items[0], "kind") if items else ""
        if kind and kind != self._served.kind:
            return printer_of(text(items[0], "apiVersion").rpartition("/")[0], kind)
        if self._served.definition is not None:
            return custom_printer(self._served.columns)
        return printer_of(self._served.group, self._served.kind)
