"""CustomResourceDefinitions: they extend the table of served resources as soon as they are stored.

There is no controller to wait for, so a definition is Established when its creation is answered. Deleting one deletes
its objects first; the finalizer that the deletion sets holds the definition until the last of them is gone.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from restow.adapters.memory import deletion, errors
from restow.adapters.memory.deletion import CLEANUP
from restow.adapters.memory.documents.schema import CustomSchema, validate_definition
from restow.adapters.memory.resources import (
    Conversion,
    ResourceType,
    ScalePaths,
    Subresource,
    collection_name,
)
from restow.adapters.memory.state import State
from restow.adapters.memory.store import Change, Collection, Field
from restow.model.objects import Document

COLLECTION = deletion.DEFINITIONS


def prepare_definition(state: State, definition: Document) -> None:
    definition["status"] = {}


def complete_definition(state: State, definition: Document) -> None:
    _check_definition(definition)
    _check_not_builtin(state, definition)
    names = _accepted_names(definition)
    now = state.stamp()
    definition["status"] = {
        "conditions": [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ],
        "acceptedNames": names,
        "storedVersions": [each["name"] for each in definition["spec"]["versions"] if each.get("storage")],
    }


def update_definition(state: State, old: Document, new: Document, subresource: str | None) -> None:
    """A changed definition is served at once, too; its status stays the server's."""
    if subresource is not None:
        return
    _check_definition(new)
    status = dict(old.get("status") or {})
    status["acceptedNames"] = _accepted_names(new)
    stored = [each["name"] for each in new["spec"]["versions"] if each.get("storage")]
    status["storedVersions"] = [*status.get("storedVersions", ())]
    status["storedVersions"] += [each for each in stored if each not in status["storedVersions"]]
    new["status"] = status


class SchemaShape(msgspec.Struct, rename="camel"):
    """What types the keywords of a JSON schema have; unknown ones are left to the rules."""

    type: str | None = None
    format: str | None = None
    pattern: str | None = None
    nullable: bool | None = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    properties: dict[str, SchemaShape] | None = None
    pattern_properties: dict[str, SchemaShape] | None = None
    items: SchemaShape | None = None
    additional_properties: bool | SchemaShape | None = None
    all_of: list[SchemaShape] | None = None
    any_of: list[SchemaShape] | None = None
    one_of: list[SchemaShape] | None = None
    list_type: str | None = msgspec.field(name="x-kubernetes-list-type", default=None)
    list_keys: list[str] | None = msgspec.field(name="x-kubernetes-list-map-keys", default=None)
    map_type: str | None = msgspec.field(name="x-kubernetes-map-type", default=None)
    preserved: bool | None = msgspec.field(name="x-kubernetes-preserve-unknown-fields", default=None)
    int_or_string: bool | None = msgspec.field(name="x-kubernetes-int-or-string", default=None)
    embedded: bool | None = msgspec.field(name="x-kubernetes-embedded-resource", default=None)
    validations: list[dict[str, Any]] | None = msgspec.field(name="x-kubernetes-validations", default=None)
    not_: SchemaShape | None = msgspec.field(name="not", default=None)


def _check_shapes(definition: Document) -> None:
    """Schemas are documents of any shape to the typed reading, so theirs is checked here: 400 as for other types."""
    for number, version in enumerate(definition["spec"].get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        try:
            msgspec.convert(schema, SchemaShape | None)
        except (msgspec.ValidationError, RecursionError) as error:
            place = f"spec.versions[{number}].schema.openAPIV3Schema"
            raise errors.bad_request(f"CustomResourceDefinition: {place}: {error}") from None


def _check_definition(definition: Document) -> None:
    _check_shapes(definition)
    causes = validate_definition(definition)
    if causes:
        name = definition["metadata"].get("name") or ""
        raise errors.invalid_object("apiextensions.k8s.io", "CustomResourceDefinition", name, causes)


def _check_not_builtin(state: State, definition: Document) -> None:
    group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
    name = collection_name(plural, group)
    if state.catalog.is_builtin(name):
        cause = errors.forbidden_value("spec.names.plural", f"{name} are served by the API server itself")
        raise errors.invalid_object("apiextensions.k8s.io", "CustomResourceDefinition", name, [cause])


def _accepted_names(definition: Document) -> Document:
    """The names with upstream's defaults, which are set in spec, too."""
    names = definition["spec"]["names"]
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    return dict(names)


def _condition(type_: str, reason: str, message: str, now: str) -> Document:
    return {"type": type_, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


def defined_types(definition: Document) -> tuple[ResourceType, list[ResourceType]]:
    """The type of the stored version, served or not, and those of the versions that are served."""
    versions = definition["spec"]["versions"]
    storage = next(each["name"] for each in versions if each.get("storage"))
    types = {each["name"]: _type(definition, each, storage) for each in versions}
    return types[storage], [types[each["name"]] for each in versions if each.get("served")]


def _type(definition: Document, version: Document, storage: str) -> ResourceType:
    spec = definition["spec"]
    names, group = spec["names"], spec["group"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    listed = [Subresource("status", names["kind"])] if "status" in subresources else []
    if scale is not None:
        listed.append(Subresource("scale", "Scale", "autoscaling", "v1"))
    return ResourceType(
        group=group,
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        collection=collection_name(names["plural"], group),
        subresources=tuple(listed),
        fields=tuple(_selectable(each["jsonPath"]) for each in version.get("selectableFields") or ()),
        counts_generation=True,
        unconditional_update=False,
        scale=_scale_paths(scale) if scale is not None else None,
        conversion=None if version["name"] == storage else _relabel(group, version["name"], storage),
        custom=CustomSchema.compile(version),
        definition=version,
    )


def _selectable(json_path: str) -> Field:
    path = json_path.removeprefix(".")
    return Field(path, (tuple(path.split(".")),))


def _scale_paths(scale: Document) -> ScalePaths:
    selector = scale.get("labelSelectorPath")
    return ScalePaths(
        replicas=_steps(scale["specReplicasPath"]),
        status_replicas=_steps(scale["statusReplicasPath"]),
        selector=_steps(selector) if selector else None,
    )


def _steps(json_path: str) -> tuple[str, ...]:
    return tuple(json_path.removeprefix(".").split("."))


def _relabel(group: str, version: str, storage: str) -> Conversion:
    """Conversion strategy None: versions differ in their apiVersion only."""
    return Conversion(
        inward=lambda document: {**document, "apiVersion": f"{group}/{storage}"},
        outward=lambda document: {**document, "apiVersion": f"{group}/{version}"},
    )


class Definitions:
    """Follows the stored definitions: registers what they define, and clears up behind deleted ones."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._ending: dict[str, str] = {}  # collection of the objects -> name of the definition being deleted
        state.store.observers.append(self._observe)

    def _observe(self, collection: Collection, change: Change) -> None:
        if collection.name == COLLECTION:
            self._follow(change)
        elif change.removed and collection.name in self._ending and not len(collection):
            asyncio.get_running_loop().call_soon(self._let_go, collection.name)

    def _follow(self, change: Change) -> None:
        definition = change.new.document()
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        name = collection_name(plural, group)
        self._state.catalog.discard(group, plural)
        if change.removed:
            self._ending.pop(name, None)
            self._state.store.drop(name)
            return
        stored, all_served = defined_types(definition)
        self._state.catalog.keep(stored)
        for served in all_served:
            self._state.catalog.add(served)
        for each in (*all_served, stored):
            self._state.store.open(name, each.fields)
        if change.new.deleting and name not in self._ending:
            self._ending[name] = change.new.name
            asyncio.get_running_loop().call_soon(self._empty, name)

    def is_ending(self, collection: str) -> bool:
        return collection in self._ending

    def _empty(self, name: str) -> None:
        """Delete all objects, once: a definition on its way out takes no new ones."""
        objects = self._state.store.collections[name]
        served = self._state.catalog.of_collection(name)
        for stored in list(objects):
            if not stored.deleting:
                deletion.delete_stored_object(self._state, served, stored, deletion.DeleteOptions())
        if not len(objects):
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        """Nothing is left: the definition may go, too."""
        definition = self._state.find(COLLECTION, "", self._ending.get(name, ""))
        if definition is None:
            return
        document = definition.document()
        finalizers = [each for each in document["metadata"].get("finalizers", ()) if each != CLEANUP]
        document["metadata"]["finalizers"] = finalizers
        collection = self._state.store.collections[COLLECTION]
        if deletion.is_deletion_complete(document):
            self._state.store.remove(collection, definition)
        elif document != definition.document():
            self._state.store.put(collection, document)
