"""Reads a document as its built-in kind, the way a server written in Go does: decode into types, encode again.

In: a document as a client sent it. Out: a private copy holding only known fields of the right types in declaration
order, without empty optional fields, quantities in canonical form; and the paths of the unknown fields that were
dropped. Types come from `merge_types`. Values of a wrong type are refused with the path of every one of them.

The fast way is one conversion in C; only a document with nulls, unknown fields or errors is walked in Python.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from functools import cache, lru_cache
from typing import Annotated, Any, NamedTuple

import msgspec

from restow.adapters.memory.documents.merge_types import MergeTypes, merge_types, struct_fields
from restow.adapters.memory.documents.request_errors import bad_request
from restow.model.quantity import Quantity, QuantityError

_TIME = r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})$"
_MICRO_TIME = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}(Z|[+-]\d{2}:\d{2})$"
_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)
_MICRO = 10**6  # nanos in a milli


class TypedDocument(NamedTuple):
    document: dict[str, Any]
    unknown: list[str]


class _Amount:
    """A quantity on its way through the conversion; leaves it as canonical text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _MilliAmount:
    """A quantity in a resource list, which holds nothing finer than a thousandth: more is rounded up."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class _Base64:
    """Bytes on their way through: checked, not changed."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def conform_to_kind(document: dict[str, Any], *, group: str, kind: str) -> TypedDocument:
    """A private, typed copy of a built-in's document; kinds without a description are returned as they are."""
    shape = merge_types(group, kind)
    if shape is None:
        return TypedDocument(document, [])
    type_ = _record(shape.leaf)
    try:
        return TypedDocument(_round_trip(document, type_), [])
    except msgspec.ValidationError:
        pass
    cleaned, unknown, wrong = _clean_document(document, shape)
    if not wrong:
        try:
            return TypedDocument(_round_trip(cleaned, type_), unknown)
        except msgspec.ValidationError as error:  # a value the walk accepts and the types do not
            wrong = [str(error)]
    version = document.get("apiVersion", "").rpartition("/")[2] if isinstance(document.get("apiVersion"), str) else ""
    raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: ' + "; ".join(wrong))


def unknown_fields(document: dict[str, Any], *, group: str, kind: str) -> list[str]:
    """The paths of the fields this kind does not have, for fieldValidation Strict and Warn."""
    shape = merge_types(group, kind)
    return _clean_document(document, shape)[1] if shape else []


def _round_trip(document: dict[str, Any], type_: type[Any]) -> dict[str, Any]:
    read = msgspec.convert(document, type_, dec_hook=_decode)
    return msgspec.to_builtins(read, enc_hook=_encode)  # type: ignore[no-any-return]


def _decode(type_: type[Any], value: Any) -> Any:
    if type_ is _MilliAmount:
        return _MilliAmount(_rounded(canonical_quantity(value)))
    if type_ is _Amount:
        return _Amount(canonical_quantity(value))
    if not isinstance(value, str):
        raise ValueError("expected base64 text")
    return _Base64(_checked_base64(value))


def _encode(value: _Amount | _MilliAmount | _Base64) -> str:
    return value.text


def _checked_base64(value: str) -> str:
    try:
        b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"illegal base64 data: {error}") from None
    return value


@lru_cache(maxsize=8192)
def _canonical(value: str | int | float) -> str:
    return str(Quantity.parse(value))


@lru_cache(maxsize=8192)
def _rounded(canonical: str) -> str:
    quantity = Quantity.parse(canonical)
    if quantity.nano % _MICRO == 0:
        return canonical
    thousandths = abs(quantity.nano) // _MICRO + 1
    return str(Quantity(thousandths * _MICRO if quantity.nano > 0 else -thousandths * _MICRO, quantity.format))


def canonical_quantity(value: Any) -> str:
    """A quantity as the server writes it; ValueError when it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("expected a quantity")
    try:
        return _canonical(value)
    except QuantityError as error:
        raise ValueError(str(error)) from None


# --- types, built on first use ---

_LEAVES: dict[str, Any] = {
    "string": str,
    "bool": bool,
    "int": Annotated[int, msgspec.Meta(ge=_INT64.start, le=_INT64.stop - 1)],
    "int32": Annotated[int, msgspec.Meta(ge=_INT32.start, lt=_INT32.stop)],
    "number": float,
    "time": Annotated[str, msgspec.Meta(pattern=_TIME)] | None,
    "microtime": Annotated[str, msgspec.Meta(pattern=_MICRO_TIME)] | None,
    "quantity": _Amount,
    "intorstring": int | str,
    "bytes": _Base64,
    "any": Any,
}
_ZEROS: dict[str, Any] = {"string": "", "bool": False, "int": 0, "int32": 0, "number": 0.0}
_PATTERNS = {"time": re.compile(_TIME), "microtime": re.compile(_MICRO_TIME)}
_LAYOUTS = {"time": "2006-01-02T15:04:05Z07:00", "microtime": "2006-01-02T15:04:05.000000Z07:00"}


@cache
def _record(name: str) -> type[Any]:
    """The record type of one struct of the table; its defaults make Go's zero values and `omitempty`."""
    fields = struct_fields(name)
    members: list[tuple[str, Any, Any]] = []
    rename: dict[str, str] = {}
    for position, (json_name, shape) in enumerate(fields.items()):
        attribute = f"f{position}"
        rename[attribute] = json_name
        members.append((attribute, *_member(shape)))
    return msgspec.defstruct(
        name.replace(".", "_"),
        members,
        rename=rename,
        omit_defaults=True,
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )


def _member(shape: MergeTypes) -> tuple[Any, Any]:
    """Type and default of one field. A default made by a factory is always written, a plain one is left out."""
    type_ = _type_of(shape)
    if shape.omit == "pointer":
        return type_ | None if type_ is not Any else Any, None
    if shape.leaf in _PATTERNS:
        return type_, None if shape.omit == "omitzero" else msgspec.field(default_factory=lambda: None)
    if shape.form == "struct":
        return type_, msgspec.field(default_factory=type_)
    if shape.form == "list":
        return type_, msgspec.field(default_factory=list) if shape.omit else None
    if shape.form == "map":
        return type_, msgspec.field(default_factory=dict) if shape.omit else None
    if shape.form == "any" or shape.leaf not in _ZEROS:
        return type_, None
    zero = _ZEROS[shape.leaf]
    return type_, zero if shape.omit else msgspec.field(default_factory=lambda: zero)


def _type_of(shape: MergeTypes) -> Any:
    if shape.form == "struct":
        return _record(shape.leaf)
    if shape.form == "list":
        return list[_type_of(shape.item())]  # type: ignore[misc]
    if shape.form == "map":
        amounts = shape.item().leaf == "quantity"
        return dict[str, _MilliAmount] if amounts else dict[str, _type_of(shape.item())]  # type: ignore[misc]
    return _LEAVES[shape.leaf]


# --- the walk: every unknown field and every wrong value, with its path ---


def _clean_document(document: dict[str, Any], shape: MergeTypes) -> tuple[dict[str, Any], list[str], list[str]]:
    unknown: list[str] = []
    wrong: list[str] = []
    cleaned = _walk(document, shape, "", unknown, wrong)
    return cleaned, unknown, wrong


def _walk(value: Any, shape: MergeTypes, path: str, unknown: list[str], wrong: list[str]) -> Any:
    if shape.form in ("struct", "map") and isinstance(value, dict):
        cleaned: dict[str, Any] = {}
        for name, member in value.items():
            place = f"{path}.{name}" if path else name
            if shape.form == "struct" and name not in shape.fields:
                unknown.append(f'unknown field "{place}"')
            elif member is not None:
                cleaned[name] = _walk(member, shape.child(name), place, unknown, wrong)
            elif shape.form == "map":
                cleaned[name] = _zero(shape.item())
        return cleaned
    if shape.form == "list" and isinstance(value, list):
        item = shape.item()
        return [
            _zero(item) if each is None else _walk(each, item, f"{path}[{index}]", unknown, wrong)
            for index, each in enumerate(value)
        ]
    problem = _problem(value, shape)
    if problem:
        wrong.append(f"{path}: {problem}")
    return value


def _zero(shape: MergeTypes) -> Any:
    """What a null stands for where something must stand: an entry of a map, an item of a list."""
    if shape.form in ("struct", "map"):
        return {}
    if shape.leaf in _PATTERNS:
        return None
    return [] if shape.form == "list" else _ZEROS.get(shape.leaf, "0" if shape.leaf == "quantity" else "")


_ACCEPTED: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bool": (bool,),
    "int": (int,),
    "int32": (int,),
    "number": (int, float),
    "time": (str,),
    "microtime": (str,),
    "intorstring": (int, str),
}
_GO_NAMES = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int32": "int32",
    "number": "float64",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
}


def _problem(value: Any, shape: MergeTypes) -> str:
    """Why a value cannot be what its field is declared as; empty when it can."""
    if shape.form == "any":
        return ""
    if shape.form != "leaf":
        go = {"struct": shape.leaf.partition(".")[2], "list": "a list", "map": "a map"}[shape.form]
        return f"json: cannot unmarshal {_json_name(value)} into Go value of type {go}"
    if shape.leaf in ("quantity", "bytes"):
        try:
            _decode(_Amount if shape.leaf == "quantity" else _Base64, value)
        except ValueError as error:
            return str(error)
        return ""
    if not isinstance(value, _ACCEPTED[shape.leaf]) or (isinstance(value, bool) and shape.leaf != "bool"):
        name = _GO_NAMES.get(shape.leaf, "intstr.IntOrString")
        return f"json: cannot unmarshal {_json_name(value)} into Go value of type {name}"
    if shape.leaf in _PATTERNS and not _PATTERNS[shape.leaf].match(str(value)):
        return f'parsing time "{value}" as "{_LAYOUTS[shape.leaf]}": cannot parse'
    if (shape.leaf == "int32" and value not in _INT32) or (shape.leaf == "int" and value not in _INT64):
        return f"json: cannot unmarshal number {value} into Go value of type {_GO_NAMES[shape.leaf]}"
    return ""


def _json_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return {str: "string", int: "number", float: "number", dict: "object", list: "array"}.get(type(value), "null")
