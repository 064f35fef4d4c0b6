"""GET and LIST: the present, or a past version that the log still reaches, in pages that belong together.

A continue token names the last key sent and the version of the first page, so later pages show the same snapshot. When
that version is forgotten the answer is 410, with a token that continues at the present instead.
"""

from __future__ import annotations

import base64
import binascii
from itertools import islice

import msgspec

from restow.adapters.memory import errors
from restow.adapters.memory.list_selection import Selection
from restow.adapters.memory.query_parameters import ListOptions, resource_version
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.store import Collection, Slice, Store, Stored, encode_json
from restow.model.objects import Document
from restow.ports import Request, Response

_PRESENT = -1  # the version in a token that continues without a snapshot
_TOKEN_FORMAT = "meta.k8s.io/v1"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. Start a new list without it, or "
    "use the continue token in this response: the rest of the list will then show later changes too."
)


class Token(msgspec.Struct, frozen=True):
    v: str
    rv: int
    start: str

    def text(self) -> str:
        return base64.urlsafe_b64encode(encode_json(self)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Token:
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=cls)
        except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
            raise errors.bad_request(f"continue key is not valid: {error}") from None
        if token.v != _TOKEN_FORMAT or "/" not in token.start or (token.rv <= 0 and token.rv != _PRESENT):
            raise errors.bad_request("continue key is not valid: not a token of this server")
        return token


def get_object(store: Store, served: ResourceType, request: Request) -> Response:
    check_not_future(store, resource_version(request.query))
    return Response(body=served.render(existing_object(store.collections[served.collection], served, request)))


def existing_object(collection: Collection, served: ResourceType, request: Request) -> Stored:
    """The object a request names, or 404."""
    name = request.name or ""
    stored = collection.get(request.namespace or "", name)
    if stored is None:
        raise errors.not_found(served.plural, served.group, name)
    return stored


def check_not_future(store: Store, wanted: int | None) -> None:
    if wanted is not None and wanted > store.version:
        raise errors.too_new(wanted, store.version)


def list_objects(store: Store, served: ResourceType, request: Request) -> Response:
    collection = store.collections[served.collection]
    options = ListOptions.read(request.query)
    selection = Selection(collection, request.namespace, request.query)
    snapshot, after = _list_position(store, collection, options)
    candidates = _candidates(collection, selection, request.namespace, snapshot, after)
    chosen = iter(filter(selection.matches, candidates) if selection.narrowed else candidates)
    page = list(islice(chosen, options.limit)) if options.limit else list(chosen)
    shown = store.version if snapshot is None else snapshot
    metadata: Document = {"resourceVersion": str(shown)}
    if options.limit and next(chosen, None) is not None:
        metadata["continue"] = Token(_TOKEN_FORMAT, shown, page[-1].key).text()
        if not selection.narrowed:
            metadata["remainingItemCount"] = len(candidates) - len(page)
    return Response(body=served.list_body(metadata, served.render_all(page)))


def _list_position(store: Store, collection: Collection, options: ListOptions) -> tuple[int | None, str]:
    """The past version to show (None: the present) and the key to start behind."""
    if options.token:
        token = Token.read(options.token)
        if token.rv == _PRESENT:
            return None, token.start
        check_not_future(store, token.rv)
        if token.rv < collection.log.floor:
            fresh = Token(_TOKEN_FORMAT, _PRESENT, token.start).text()
            raise errors.expired_error(_TOO_OLD, {"continue": fresh})
        return token.rv, token.start
    check_not_future(store, options.version)
    exact = options.match == "Exact" or (options.limit and options.version and not options.match)
    if not exact or options.version is None:
        return None, ""
    if options.version < collection.log.floor:
        raise errors.expired_error("The resourceVersion for the provided list is too old.")
    return options.version, ""


def _candidates(
    collection: Collection, selection: Selection, namespace: str | None, snapshot: int | None, after: str
) -> Slice | list[Stored]:
    """What may match: by index if the selector pins it, else the whole namespace."""
    if snapshot is not None:
        return collection.within_at(snapshot, namespace, after)
    pinned = selection.candidates(collection, namespace)
    if pinned is None:
        return collection.within(namespace, after)
    return [stored for stored in pinned if stored.key > after]
