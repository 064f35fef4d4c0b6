"""Resource vectors, and what a pod asks of a node.

A vector maps a resource name to an integer in base units (cpu in milli, everything else whole); a missing name is zero.
Every operation works name by name: amounts of different resources are never added or compared with each other.

`pod_requests` is kube-scheduler's own sum: containers and sidecars added up, at least what the largest init step
needs, pod-level requests in place of cpu, memory and hugepages, overhead on top; while a pod is being resized in place,
the larger of what it has and what it wants. Sums are exact and rounded up once, at the end.

A limit stands for a request that is missing. The API server writes it there in every pod, but not in the template of
another object, where people leave it to the server just the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from restow.model.objects import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Quantities,
    QuantityText,
    ResourceRequirements,
)
from restow.model.quantity import NANO, Quantity, parse_amount, quantity_of

Vector = Mapping[str, int]

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
HUGEPAGES = "hugepages-"

# What a container without a request counts as when nodes are scored, in nano units: 100m and 200Mi.
_SCORED_IF_MISSING = {CPU: NANO // 10, MEMORY: 200 * 2**20 * NANO}


class Shortage(msgspec.Struct, frozen=True, order=True):
    """One resource there is not enough of."""

    resource: str
    requested: int
    available: int

    def __str__(self) -> str:
        requested, available = (quantity_of(self.resource, number) for number in (self.requested, self.available))
        return f"insufficient {self.resource} (requested {requested}, available {available})"


def is_extended(name: str) -> bool:
    """Whether a resource is a device plugin's or an operator's: neither Kubernetes' own nor a quota's."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def parse_amounts(quantities: Mapping[str, QuantityText] | None) -> dict[str, int]:
    """The vector of a resource list as written in an object. Raises QuantityError."""
    return {name: parse_amount(name, text) for name, text in (quantities or {}).items()}


def format_quantities(vector: Vector) -> dict[str, str]:
    """A vector as it is written in an object, by name."""
    return {name: str(quantity_of(name, vector[name])) for name in sorted(vector)}


def add_vectors(left: Vector, right: Vector) -> dict[str, int]:
    return _by_name(left, right, int.__add__)


def subtract_vectors(left: Vector, right: Vector) -> dict[str, int]:
    """Name by name and possibly negative: what is missing must stay visible."""
    return _by_name(left, right, int.__sub__)


def vector_maximum(left: Vector, right: Vector) -> dict[str, int]:
    return _by_name(left, right, max)


def vector_minimum(left: Vector, right: Vector) -> dict[str, int]:
    return _by_name(left, right, min)


def scale_vector(vector: Vector, times: int) -> dict[str, int]:
    return {name: number * times for name, number in vector.items()}


def resource_shortages(request: Vector, available: Vector) -> list[Shortage]:
    """Every resource of which more is requested than available, by name. A request of zero is never short."""
    return [
        Shortage(name, request[name], available.get(name, 0))
        for name in sorted(request)
        if 0 < request[name] > available.get(name, 0)
    ]


def vector_fits(request: Vector, available: Vector) -> bool:
    """Whether nothing is short; zero fits even where the node is over-committed."""
    return all(number <= 0 or number <= available.get(name, 0) for name, number in request.items())


def pod_requests(pod: Pod) -> dict[str, int]:
    """What the pod occupies on its node, or needs on one, as kube-scheduler counts it. Raises QuantityError."""
    return _round_amounts(_sum_requests(pod.spec, pod.status, {}))


def template_requests(spec: PodSpec) -> dict[str, int]:
    """What a pod of this spec will need."""
    return _round_amounts(_sum_requests(spec, PodStatus(), {}))


def enlarged_vector(spec: PodSpec, least: Vector) -> PodSpec:
    """A spec that asks for so much at least: what is missing is counted as overhead, which belongs to the pod as a
    whole."""
    more = subtract_vectors(least, template_requests(spec))
    short = {name: amount for name, amount in more.items() if amount > 0}
    return (
        replace(spec, overhead=format_quantities(add_vectors(parse_amounts(spec.overhead), short))) if short else spec
    )


def scored_requests(pod: Pod) -> dict[str, int]:
    """`pod_requests` as scoring sees them: a container that leaves out cpu or memory counts as 100m and 200Mi."""
    requested = _sum_requests(pod.spec, pod.status, {})
    missing = dict(_SCORED_IF_MISSING)
    if _pod_level(pod.spec, {}):
        missing = {name: number for name, number in missing.items() if name not in requested}
    return _round_amounts(_sum_requests(pod.spec, pod.status, missing) if missing else requested)


def is_scheduled(name: str) -> bool:
    """Whether a scheduler accounts for this resource at all: the built-in ones, and scalars such as extended ones."""
    if name in (CPU, MEMORY, EPHEMERAL_STORAGE):
        return True
    return ("/" in name and not name.startswith("requests.")) or name.startswith((HUGEPAGES, "attachable-volumes-"))


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the others."""
    return container.restart_policy == "Always"


def _by_name(left: Vector, right: Vector, combine: Callable[[int, int], int]) -> dict[str, int]:
    return {name: combine(left.get(name, 0), right.get(name, 0)) for name in sorted({*left, *right})}


def _round_amounts(nano: Mapping[str, int]) -> dict[str, int]:
    return {
        name: Quantity(number).milli if name == CPU else Quantity(number).value
        for name, number in nano.items()
        if is_scheduled(name)
    }


# --- the sum, in nano units -------------------------------------------------------------------------------------------


def _sum_requests(spec: PodSpec, status: PodStatus, if_missing: Mapping[str, int]) -> dict[str, int]:
    infeasible = _resize_infeasible(status)
    total = _container_requests_sum(spec, status, infeasible, if_missing)
    level = _pod_level(spec, total)
    if level:
        total.update(_effective_pod_level(level, status, infeasible))
    _add_to(total, _nano_amounts(spec.overhead))
    return total


def _container_requests_sum(
    spec: PodSpec, status: PodStatus, infeasible: bool, if_missing: Mapping[str, int]
) -> dict[str, int]:
    statuses = _resized_statuses(status)
    total: dict[str, int] = {}
    for container in spec.containers or ():
        _add_to(total, _container_request(container, statuses.get(container.name), infeasible, if_missing))
    sidecars: dict[str, int] = {}
    init_peak: dict[str, int] = {}
    for container in spec.init_containers or ():
        if is_sidecar(container):
            request = _container_request(container, statuses.get(container.name), infeasible, if_missing)
            _add_to(total, request)
            _add_to(sidecars, request)
            step = sidecars
        else:
            step = _container_request(container, None, infeasible, if_missing)
            _add_to(step, sidecars)
        _raise_to(init_peak, step)
    _raise_to(total, init_peak)
    return total


def _container_request(
    container: Container, status: ContainerStatus | None, infeasible: bool, if_missing: Mapping[str, int]
) -> dict[str, int]:
    written = _requests_from_limits(container.resources)
    request = _nano_amounts(written)
    if status is not None and status.resources is not None:
        actual, allocated = status.resources.requests, status.allocated_resources
        if not written == actual == allocated:
            request = _effective_request(request, actual, allocated, infeasible)
    for name, number in if_missing.items():
        request.setdefault(name, number)
    return request


def _effective_request(
    wanted: dict[str, int], actual: Quantities | None, allocated: Quantities | None, infeasible: bool
) -> dict[str, int]:
    """During an in-place resize the largest of all; a resize that cannot happen on this node is not wanted."""
    result = {} if infeasible else dict(wanted)
    _raise_to(result, _nano_amounts(actual))
    _raise_to(result, _nano_amounts(allocated))
    return result


def _requests_from_limits(resources: ResourceRequirements) -> Quantities | None:
    """What a container requests, where it does not say what it is limited to."""
    requests, limits = resources.requests, resources.limits
    if not limits or (requests and limits.keys() <= requests.keys()):
        return requests
    return {**limits, **(requests or {})}


def _pod_level(spec: PodSpec, containers: Collection[str]) -> dict[str, int]:
    """The pod-level requests that take the place of the containers' sum. A limit stands for one that is missing, except
    of cpu and memory where containers request any: then their sum does."""
    if spec.resources is None:
        return {}
    written = _nano_amounts(spec.resources.requests)
    for name, number in _nano_amounts(spec.resources.limits).items():
        if name.startswith(HUGEPAGES) or name not in containers:
            written.setdefault(name, number)
    return {name: number for name, number in written.items() if name in (CPU, MEMORY) or name.startswith(HUGEPAGES)}


def _effective_pod_level(level: dict[str, int], status: PodStatus, infeasible: bool) -> dict[str, int]:
    if status.resources is None:
        return level
    effective = _effective_request(level, status.resources.requests, status.allocated_resources, infeasible)
    return {name: effective.get(name, 0) for name in level}


def _resize_infeasible(status: PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _resized_statuses(status: PodStatus) -> dict[str, ContainerStatus]:
    reports: Sequence[ContainerStatus] = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    return {report.name: report for report in reports if report.resources is not None}


def _nano_amounts(written: Quantities | None) -> dict[str, int]:
    return {name: _nano_of(text) for name, text in written.items()} if written else {}


@lru_cache(maxsize=65536, typed=True)
def _nano_of(text: str | int | float) -> int:
    return Quantity.parse(text).nano


def _add_to(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def _raise_to(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, number in least.items():
        if name not in total or total[name] < number:
            total[name] = number
