"""Checking a value against a compiled schema: every violation, with the path and in the phrasing of upstream.

A value equal to the one it replaces is not held against an update, so that tightening a schema does not lock objects.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from typing import Any

from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.schema_nodes import MISSING, SchemaNode
from restow.model.names import subdomain_problems
from restow.model.objects import Document
from restow.model.times import TimeError, parse_duration, parse_time

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
KNOWN_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "self == oldSelf": lambda value, old: bool(value == old),
    "oldSelf == '' || self == oldSelf": lambda value, old: old in ("", value),
    "!(oldSelf in ['Succeed', 'Failed', 'Aborted']) || self == oldSelf": lambda value, old: (
        old not in ("Succeed", "Failed", "Aborted") or value == old
    ),
    "!has(oldSelf.uid) || has(self.uid)": lambda value, old: _is_kept("uid", value, old),
    "!has(oldSelf.mode) || has(self.mode)": lambda value, old: _is_kept("mode", value, old),
}
"""The CEL rules that are understood, by their exact text. They compare with the old value, so they hold on creation."""


def _is_kept(name: str, value: Document, old: Document) -> bool:
    return old.get(name) is None or value.get(name) is not None


def check_value(value: Any, old: Any, node: SchemaNode, path: str, errors: FieldErrors) -> None:
    if value == old and old is not MISSING:
        return
    if value is None:
        if not node.nullable:
            _wrong_type(value, node.type or "object", path, errors)
        return
    if not _has_type(value, node):
        expected = "integer,string" if node.int_or_string else node.type
        _wrong_type(value, expected, path, errors)
        return
    _check_scalar(value, node, path, errors)
    if isinstance(value, dict):
        _check_object(value, old if isinstance(old, dict) else {}, node, path, errors)
    elif isinstance(value, list):
        _check_list(value, old if isinstance(old, list) else [], node, path, errors)
    _check_junctors(value, node, path, errors)
    if old is not MISSING:
        _check_rules(value, old, node, path, errors)


def _place(path: str) -> str:
    return path or "<root>"


def _wrong_type(value: Any, expected: str, path: str, errors: FieldErrors) -> None:
    name = _type_name(value)
    errors.wrong_type(_place(path), name, f'{_place(path)} in body must be of type {expected}: "{name}"')


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return {dict: "object", list: "array", str: "string", int: "integer", float: "number"}[type(value)]


def _has_type(value: Any, node: SchemaNode) -> bool:
    if node.int_or_string:
        return isinstance(value, int | str) and not isinstance(value, bool)
    if not node.type:
        return True
    if isinstance(value, bool):
        return node.type == "boolean"
    if node.type == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[node.type])


# --- scalars ---


def _check_scalar(value: Any, node: SchemaNode, path: str, errors: FieldErrors) -> None:
    if node.enum is not None and not any(value == each and type(value) is type(each) for each in node.enum):
        errors.unsupported(_place(path), value, [each if isinstance(each, str) else str(each) for each in node.enum])
    if isinstance(value, str):
        _check_text(value, node, path, errors)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(value, node, path, errors)


def _check_text(value: str, node: SchemaNode, path: str, errors: FieldErrors) -> None:
    if node.pattern is not None and not node.pattern.search(value):
        errors.invalid(_place(path), value, f"{path} in body should match '{node.pattern.pattern}'")
    least, most = node.limits.get("minLength"), node.limits.get("maxLength")
    if least is not None and len(value) < least:
        errors.invalid(_place(path), value, f"{path} in body should be at least {least} chars long")
    if most is not None and len(value) > most:
        errors.too_long(_place(path), most)
    check = _FORMATS.get(node.format)
    if check is not None and not check(value):
        errors.wrong_type(_place(path), value, f'{path} in body must be of type {node.format}: "{value}"')


def _check_number(value: float, node: SchemaNode, path: str, errors: FieldErrors) -> None:
    limits = node.limits
    if not limits and not node.format:
        return
    least, most, step = limits.get("minimum"), limits.get("maximum"), limits.get("multipleOf")
    if least is not None and (value < least or (value == least and limits.get("exclusiveMinimum"))):
        how = "greater than" if limits.get("exclusiveMinimum") else "greater than or equal to"
        errors.invalid(_place(path), value, f"{path} in body should be {how} {least}")
    if most is not None and (value > most or (value == most and limits.get("exclusiveMaximum"))):
        how = "less than" if limits.get("exclusiveMaximum") else "less than or equal to"
        errors.invalid(_place(path), value, f"{path} in body should be {how} {most}")
    if step is not None and value % step:
        errors.invalid(_place(path), value, f"{path} in body should be a multiple of {step}")
    bits = {"int32": 31, "int64": 63}.get(node.format)
    if bits is not None and not -(2**bits) <= value < 2**bits:
        errors.invalid(_place(path), value, f"{path} in body must be of type {node.format}")


def _parses(parse: Callable[[str], object], *errors: type[Exception]) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            parse(value)
        except errors:
            return False
        return True

    return check


_UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _parses(parse_time, TimeError),
    "date": _parses(date.fromisoformat, ValueError),
    "duration": _parses(parse_duration, TimeError),
    "byte": _parses(lambda value: base64.b64decode(value, validate=True), binascii.Error, ValueError),
    "ipv4": _parses(ipaddress.IPv4Address, ValueError),
    "ipv6": _parses(ipaddress.IPv6Address, ValueError),
    "cidr": _parses(lambda value: ipaddress.ip_network(value, strict=False), ValueError),
    "uuid": lambda value: _UUID.fullmatch(value) is not None,
    "hostname": lambda value: not subdomain_problems(value.lower()),
}


# --- objects and lists ---


def _check_object(value: Document, old: Document, node: SchemaNode, path: str, errors: FieldErrors) -> None:
    prefix = f"{path}." if path else ""
    for name in node.required:
        if name not in value:
            errors.required(f"{prefix}{name}")
    least, most = node.limits.get("minProperties"), node.limits.get("maxProperties")
    if least is not None and len(value) < least:
        errors.invalid(_place(path), value, f"{path} in body should have at least {least} properties")
    if most is not None and len(value) > most:
        errors.too_many(_place(path), len(value), most)
    for name, member in value.items():
        child = node.properties.get(name, node.additional)
        if child is not None:
            check_value(member, old.get(name, MISSING), child, f"{prefix}{name}", errors)
    if node.embedded:
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                errors.required(f"{prefix}{name}")


def _check_list(value: list[Any], old: list[Any], node: SchemaNode, path: str, errors: FieldErrors) -> None:
    least, most = node.limits.get("minItems"), node.limits.get("maxItems")
    if least is not None and len(value) < least:
        errors.invalid(_place(path), len(value), f"{path} in body should have at least {least} items")
    if most is not None and len(value) > most:
        errors.too_many(_place(path), len(value), most)
    if node.list_type in ("set", "map"):
        _check_unique(value, node, path, errors)
    if node.items is None:
        return
    before = {_identity(item, node): item for item in old} if node.list_type == "map" else {}
    for index, item in enumerate(value):
        check_value(item, before.get(_identity(item, node), MISSING), node.items, f"{path}[{index}]", errors)


def _identity(item: Any, node: SchemaNode) -> str:
    if node.list_type == "map" and isinstance(item, dict):
        return repr([(key, item.get(key)) for key in node.keys])
    return repr(item)


def _check_unique(value: list[Any], node: SchemaNode, path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, item in enumerate(value):
        identity = _identity(item, node)
        if identity in seen:
            shown = (
                {key: item.get(key) for key in node.keys}
                if node.list_type == "map" and isinstance(item, dict)
                else item
            )
            errors.duplicate(f"{path}[{index}]", shown)
        seen.add(identity)


# --- junctors and rules ---


def _check_junctors(value: Any, node: SchemaNode, path: str, errors: FieldErrors) -> None:
    place = _place(path)
    for each in node.all_of:
        check_value(value, MISSING, each, path, errors)
    if node.any_of and not any(satisfies_scalar_rules(value, each) for each in node.any_of):
        errors.invalid(place, "", f'"{path}" must validate at least one schema (anyOf)')
    if node.one_of:
        count = sum(satisfies_scalar_rules(value, each) for each in node.one_of)
        if count != 1:
            how = "Found none valid" if count == 0 else f"Found {count} valid alternatives"
            errors.invalid(place, "", f'"{path}" must validate one and only one schema (oneOf). {how}')
    if node.excluded is not None and satisfies_scalar_rules(value, node.excluded):
        errors.invalid(place, "", f'"{path}" must not validate the schema (not)')


def satisfies_scalar_rules(value: Any, node: SchemaNode) -> bool:
    """Whether a value that replaces none is in order."""
    trial = FieldErrors()
    check_value(value, MISSING, node, "", trial)
    return not trial.causes


def _check_rules(value: Any, old: Any, node: SchemaNode, path: str, errors: FieldErrors) -> None:
    for rule in node.rules:
        if not KNOWN_RULES[rule["rule"].strip()](value, old):
            where = f"{_place(path)}{rule.get('fieldPath', '')}"
            errors.invalid(where, value, rule.get("message") or f"failed rule: {rule['rule']}")
