"""The comparison of match policy `Template`: is this pod what the seat was reserved for?

Goes in: a pod and the reserved pod of a seat. Comes out: the fields in which they differ, of those that are compared:
scheduler, node selector, affinity, tolerations, priority class, and of every container its image, requests and limits.
Both are compared with the defaults of the API server, and by meaning: "1" and "1000m" of cpu are equal, and so are
lists with no order in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from restow.model.match_label_keys import fold_label_keys
from restow.model.objects import Affinity, Container, Pod, PodSpec, Quantities, Toleration
from restow.model.pods import DEFAULT_SCHEDULER
from restow.model.quantity import Quantity, QuantityError
from restow.model.taints import NO_EXECUTE, NOT_READY, UNREACHABLE

FIELDS: Final = (
    "schedulerName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "priorityClassName",
    "containers",
    "initContainers",
)

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_spec: Final = msgspec.msgpack.Decoder(PodSpec).decode
_ADDED_TOLERATIONS: Final = (NOT_READY, UNREACHABLE)
_ADDED_SECONDS: Final = 300
_MEANS_ALL: Final = ("labelSelector", "namespaceSelector")
"""Fields of which an empty object selects everything and a missing one nothing, so that neither is dropped."""

Canonical = tuple[bytes, ...]
"""One part per field of FIELDS."""


def differing_fields(pod: Pod, reserved_pod: Pod, default_class: str = "") -> tuple[str, ...]:
    """The compared fields in which a pod differs from the reserved pod of a seat.

    `default_class` is the priority class of pods that name none. A seat without a scheduler name is for pods of any
    scheduler.
    """
    own, reserved = canonical_form(pod, default_class), canonical_form(reserved_pod, default_class)
    if own == reserved:
        return ()
    differing = tuple(field for field, part, other in zip(FIELDS, own, reserved, strict=True) if part != other)
    return differing if reserved_pod.spec.scheduler_name else tuple(field for field in differing if field != FIELDS[0])


def describe_differences(pod: Pod, reserved_pod: Pod, fields: Iterable[str]) -> str:
    """The differing fields as a text; of containers also which, and in what."""
    own, reserved = pod.spec, reserved_pod.spec
    details = {
        "containers": _container_differences(own.containers, reserved.containers),
        "initContainers": _container_differences(own.init_containers, reserved.init_containers),
    }
    return ", ".join(field + details.get(field, "") for field in fields)


def _container_differences(own: Iterable[Container] | None, reserved: Iterable[Container] | None) -> str:
    of_pod, of_template = ({name: rest for name, *rest in _containers(side or ())} for side in (own, reserved))
    differences = [f"the template has no {name}" for name in of_pod if name not in of_template]
    differences += [f"the pod has no {name}" for name in of_template if name not in of_pod]
    for name in of_pod.keys() & of_template.keys():
        parts = zip(("image", "requests", "limits"), of_pod[name], of_template[name], strict=True)
        if differing := [part for part, value, other in parts if value != other]:
            differences.append(f"{name}: {', '.join(differing)}")
    return f" ({'; '.join(sorted(differences)) or 'their order'})"


def canonical_form(pod: Pod, default_class: str = "") -> Canonical:
    """The compared fields of a pod in one canonical form: equal for pods that mean the same."""
    spec = pod.spec
    if spec.affinity is not None:
        spec = fold_label_keys(spec, pod.metadata.labels or {})
    compared = PodSpec(
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        node_selector=spec.node_selector,
        affinity=spec.affinity,
        tolerations=spec.tolerations,
        priority_class_name=spec.priority_class_name or default_class,
        containers=spec.containers,
        init_containers=spec.init_containers,
    )
    return _canonical(_encode(compared))


@lru_cache(maxsize=4096)
def _canonical(written: bytes) -> Canonical:
    """The canonical form of an encoded spec. The pods of a workload are written alike, so one of them is parsed for
    all."""
    spec = _decode_spec(written)
    return (
        _encode(spec.scheduler_name),
        _encode(spec.node_selector or {}),
        _encode(_affinity(spec.affinity)),
        _encode(_tolerations(spec.tolerations or ())),
        _encode(spec.priority_class_name or ""),
        _encode(sorted(_containers(spec.containers or ()))),
        _encode(_containers(spec.init_containers or ())),  # init containers run in order
    )


def _affinity(affinity: Affinity | None) -> Any:
    return _unordered(msgspec.to_builtins(affinity)) if affinity is not None else {}


def _unordered(value: Any) -> Any:
    """Terms are ORed, expressions ANDed, values alternatives, preferences added up: no order means anything."""
    if isinstance(value, dict):
        parts = {key: _unordered(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in ({}, []) or key in _MEANS_ALL}
    if isinstance(value, list):
        return sorted((_unordered(item) for item in value), key=_encode)
    return value


def _tolerations(written: Iterable[Toleration]) -> list[Toleration]:
    """With those that the API server adds to pods that say nothing about nodes that are not ready."""
    full = [replace(toleration, operator=toleration.operator or "Equal") for toleration in written]
    for key in _ADDED_TOLERATIONS:
        if not any(
            toleration.key in (None, "", key) and toleration.effect in (None, "", NO_EXECUTE) for toleration in full
        ):
            full.append(Toleration(key=key, operator="Exists", effect=NO_EXECUTE, toleration_seconds=_ADDED_SECONDS))
    return sorted(full, key=_encode)


def _containers(containers: Iterable[Container]) -> list[tuple[str, str, Any, Any]]:
    """What is limited and not requested is requested, as the API server has it."""
    return [
        (
            container.name,
            container.image or "",
            _amounts({**(container.resources.limits or {}), **(container.resources.requests or {})}),
            _amounts(container.resources.limits),
        )
        for container in containers
    ]


def _amounts(quantities: Quantities | None) -> list[tuple[str, str]]:
    return sorted((name, _amount(text)) for name, text in (quantities or {}).items())


def _amount(text: str | int | float) -> str:
    """The exact amount; what is none is only equal to itself."""
    try:
        return str(Quantity.parse(text).nano)
    except QuantityError:
        return repr(text)
