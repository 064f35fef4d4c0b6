"""Rules for amounts of resources: names, quantities, and requests against limits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.model.names import qualified_name_problems
from restow.model.objects import Document
from restow.model.quantity import Quantity, QuantityError
from restow.model.resources import is_extended

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = frozenset({"cpu", "memory"})
_STANDARD = _CONTAINER | {"storage", "pods", "services", "secrets", "configmaps", "persistentvolumeclaims"}
_NATIVE = "kubernetes.io/"


@lru_cache(maxsize=8192)
def parsed_quantity(text: str | int | float) -> Quantity | None:
    """The quantity, or None when the text is none."""
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None


def may_overcommit(name: str) -> bool:
    """Whether requests may be below limits: ordinary resources, but neither huge pages nor extended ones."""
    return not name.startswith("hugepages-") and ("/" not in name or _NATIVE in name)


def check_amounts(amounts: Document, field: str, errors: FieldErrors) -> None:
    """A resource list anywhere: qualified names, quantities that are not negative, whole numbers of extended ones."""
    for name, text in amounts.items():
        where = f"{field}.{name}"
        errors.all_invalid(where, name, qualified_name_problems(name))
        check_amount(name, text, where, errors)


def check_amount(name: str, text: Any, field: str, errors: FieldErrors) -> Quantity | None:
    quantity = parsed_quantity(text)
    if quantity is None:
        errors.invalid(field, text, "must be a quantity, such as 500m, 2 or 1Gi")
    elif quantity.nano < 0:
        errors.invalid(field, text, "must be greater than or equal to 0")
    elif is_extended(name) and quantity.milli % 1000:
        errors.invalid(field, text, "must be an integer")
    return quantity


def check_resources(resources: Document, field: str, errors: FieldErrors, *, pod_level: bool = False) -> None:
    """Requests and limits of one container, or of a pod as a whole."""
    requests, limits = resources.get("requests"), resources.get("limits")
    if limits:
        _check_named(limits, f"{field}.limits", errors, pod_level)
    if not pod_level:
        _check_huge_pages({**(limits or {}), **(requests or {})}, field, errors)
    if not requests:
        return
    _check_named(requests, f"{field}.requests", errors, pod_level)
    for name, text in requests.items():
        limit_text = limits.get(name) if limits else None
        if limit_text is None:
            if not may_overcommit(name):
                errors.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
            continue
        if text == limit_text:
            continue
        request, limit = parsed_quantity(text), parsed_quantity(limit_text)
        if request is None or limit is None:
            continue
        if not may_overcommit(name) and request != limit:
            errors.invalid(f"{field}.requests", text, f"must be equal to {name} limit of {limit_text}")
        elif limit < request:
            errors.invalid(f"{field}.requests", text, f"must be less than or equal to {name} limit of {limit_text}")


def _check_huge_pages(amounts: Document, field: str, errors: FieldErrors) -> None:
    if any(name.startswith("hugepages-") for name in amounts) and not amounts.keys() & _POD_LEVEL:
        errors.forbidden(field, "HugePages require cpu or memory")


def _check_named(amounts: Document, field: str, errors: FieldErrors, pod_level: bool) -> None:
    plain = _POD_LEVEL if pod_level else _CONTAINER
    for name, text in amounts.items():
        if name not in plain:
            if pod_level and not name.startswith("hugepages-"):
                errors.unsupported(f"{field}[{name}]", name, sorted(_POD_LEVEL))
            else:
                _check_name(name, field, errors)
        quantity = parsed_quantity(text)
        if quantity is None or quantity.nano < 0 or "/" in name:
            check_amount(name, text, f"{field}[{name}]", errors)


def _check_name(name: str, field: str, errors: FieldErrors) -> None:
    if problems := qualified_name_problems(name):
        errors.all_invalid(f"{field}[{name}]", name, problems)
    elif "/" not in name and not name.startswith("hugepages-"):
        if name not in _STANDARD:
            errors.invalid(f"{field}[{name}]", name, "must be a standard resource type or fully qualified")
        errors.invalid(f"{field}[{name}]", name, "must be a standard resource for containers")
