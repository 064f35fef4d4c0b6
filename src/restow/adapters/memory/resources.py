"""What the API server serves: one `ResourceType` per group, version and plural, with the traits its writes follow.

Traits say which kinds count generations, accept a status on creation, allow updates without a resourceVersion, may be
created by PUT, and answer a deletion with the object instead of a Status. `Catalog` is the current table: built-ins
first (`builtin_resources`), custom resources as their definitions come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from restow.adapters.memory import errors
from restow.adapters.memory.documents.schema import CustomSchema
from restow.adapters.memory.store import Field, Stored, encode_json
from restow.model.objects import Document
from restow.ports import Resource

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ_VERBS = ("get", "list")
UPDATE_VERBS = ("get", "patch", "update")


class Subresource(msgspec.Struct, frozen=True):
    """`group`, `version` and `kind` are those of the body, which for scale, eviction and binding is another kind."""

    name: str
    kind: str
    group: str = ""
    version: str = ""
    verbs: tuple[str, ...] = UPDATE_VERBS


class ScalePaths(msgspec.Struct, frozen=True):
    """Where a kind keeps what its Scale shows; `selector` may be a label selector object or its text form."""

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] | None = ("spec", "selector")


class Conversion(msgspec.Struct, frozen=True):
    """Between the form a version is spoken in and the form it is stored in; both take and return a document."""

    inward: Callable[[Document], Document]
    outward: Callable[[Document], Document]


class ResourceType(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    collection: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    fields: tuple[Field, ...] = ()
    index: str | None = None
    counts_generation: bool = False
    status_on_create: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    returns_deleted: bool = False
    scale: ScalePaths | None = None
    conversion: Conversion | None = None
    custom: CustomSchema | None = None
    definition: dict[str, Any] | None = None  # the version entry of a custom resource's definition
    list_kind: str = ""

    @property
    def resource(self) -> Resource:
        return Resource(self.group, self.version, self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The additional printer columns of a custom resource's version."""
        return list((self.definition or {}).get("additionalPrinterColumns") or ())

    @property
    def has_status(self) -> bool:
        return any(each.name == "status" for each in self.subresources)

    def subresource(self, name: str) -> Subresource | None:
        return next((each for each in self.subresources if each.name == name), None)

    def outward(self, document: Document) -> Document:
        return self.conversion.outward(document) if self.conversion else document

    def inward(self, document: Document) -> Document:
        return self.conversion.inward(document) if self.conversion else document

    def render_all(self, objects: list[Stored]) -> list[bytes]:
        return [self.render(each) for each in objects] if self.conversion else [each.data for each in objects]

    def render(self, stored: Stored) -> bytes:
        return encode_json(self.conversion.outward(stored.document())) if self.conversion else stored.data

    def list_body(self, metadata: Document, bodies: list[bytes]) -> bytes:
        """A list of bodies. The items of built-ins do not repeat kind and apiVersion."""
        if self.custom is None:
            head = b'{"kind":"%s","apiVersion":"%s",' % (self.kind.encode(), self.api_version.encode())
            length = len(head)
            bodies = [b"{" + body[length:] if body.startswith(head) else body for body in bodies]
        start = encode_json({"kind": self.list_kind, "apiVersion": self.api_version, "metadata": metadata})
        return b'%s,"items":[%s]}' % (start[:-1], b",".join(bodies))


class Catalog:
    """The resources served right now, by path, by kind and by where they are stored."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types: dict[Resource, ResourceType] = {}
        self._kinds: dict[tuple[str, str], ResourceType] = {}
        self._collections: dict[str, ResourceType] = {}
        for each in types:
            self.add(each)

    def __iter__(self) -> Iterator[ResourceType]:
        return iter([self._types[resource] for resource in sorted(self._types)])

    def add(self, served: ResourceType) -> None:
        self._types[served.resource] = served
        self._kinds.setdefault((served.group, served.kind), served)
        if served.conversion is None or served.collection not in self._collections:
            self._collections[served.collection] = served

    def keep(self, stored: ResourceType) -> None:
        """Say how the objects of a collection are stored, whether or not that form is served."""
        self._collections[stored.collection] = stored

    def discard(self, group: str, plural: str) -> None:
        gone = [each for each in self._types if (each.group, each.plural) == (group, plural)]
        for resource in gone:
            served = self._types.pop(resource)
            if self._kinds.get((served.group, served.kind)) is served:
                del self._kinds[served.group, served.kind]
        self._collections.pop(collection_name(plural, group), None)

    def find(self, resource: Resource) -> ResourceType:
        served = self._types.get(resource)
        if served is None:
            raise errors.unknown_resource()
        return served

    def of_collection(self, name: str) -> ResourceType:
        """The type that speaks the stored form."""
        return self._collections[name]

    def is_builtin(self, name: str) -> bool:
        """Whether a collection is the server's own, not that of a definition."""
        types = self._collections.get(name)
        return types is not None and types.custom is None

    def of_kind(self, group: str, kind: str) -> ResourceType | None:
        return self._kinds.get((group, kind))


def collection_name(plural: str, group: str) -> str:
    return errors.qualified_name(plural, group)


def selectable_field(label: str, *others: str, absent: str = "") -> Field:
    """A selectable field under its own path, or the first of `others` that is set."""
    return Field(label, tuple(tuple(path.split(".")) for path in (label, *others)), absent)
