"""Types that all API objects share: metadata, references, selectors as written, conditions, and the formats of field
types.

All Structs here and beside hold only the fields Restow reads or writes; unknown fields are skipped when decoding,
which is why a decoded object is never sent back whole: changes travel as patches. Rules for members, so that readers
need not look them up:

- `metadata`, `spec`, `status`, `resources`: always there, an empty instance by default;
- `metadata.name`, `uid`, `resource_version` and other identifying strings: "" by default;
- every other scalar, list, map or pointer: `None` when absent or JSON null; iterate with `or ()`.

Types such as `Time` or `Quantities` are plain JSON types with a format that `wire.convert` (checks) and `crds`
(schemas) read; decoding ignores the formats, so that one malformed object cannot stop a whole list.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Protocol, TypeVar, dataclass_transform

from msgspec import Meta, Struct, field

Time = Annotated[str, Meta(extra={"format": "date-time"})]
MicroTime = Annotated[str, Meta(extra={"format": "date-time"})]
Duration = Annotated[str, Meta(extra={"format": "duration"})]
QuantityText = Annotated[str | int | float, Meta(extra={"format": "quantity"})]
Quantities = dict[str, QuantityText]
IntOrString = Annotated[int | str, Meta(extra={"format": "int-or-string"})]
Int32 = Annotated[int, Meta(extra={"format": "int32"})]
Count = Annotated[int, Meta(extra={"format": "int32"}, extra_json_schema={"minimum": 0})]
Labels = dict[str, str]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class ApiStruct(
    Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True, repr_omit_defaults=True
):
    """The base of everything that travels: immutable, camelCase on the wire, unset members left out."""


class OwnerReference(ApiStruct):
    """An owner of an object; `controller` marks the owner that manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiStruct):
    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Labels | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class Object(Protocol):
    """Any object that Kubernetes stores."""

    @property
    def metadata(self) -> ObjectMeta: ...


class ListMeta(ApiStruct):
    resource_version: str = ""
    continue_: str | None = field(name="continue", default=None)
    remaining_item_count: int | None = None


T = TypeVar("T")


class ObjectList(ApiStruct, Generic[T]):
    """A page of a list: `ObjectList[Pod]` decodes a PodList."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class ObjectReference(ApiStruct):
    """A reference to an object, optionally to exactly the one with this uid."""

    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class SelectorRequirement(ApiStruct):
    """One expression of a label selector or of a node selector term, as written."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class SelectorSpec(ApiStruct):
    """A label selector as written in an object.

    Named metav1.LabelSelector upstream; here that is the compiled form, `selectors.label_selector` leads to it.
    """

    match_labels: Labels | None = None
    match_expressions: list[SelectorRequirement] | None = None


class Condition(ApiStruct):
    """One aspect of an object's state; there is at most one per type."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None


class MetadataOnly(ApiStruct):
    """An object of which only the metadata is read."""

    metadata: ObjectMeta = ObjectMeta()


Document = dict[str, Any]
