"""Sizes: which of several requests are larger, so that nobody small sits where somebody large will have to; and pods as
they are apart from that.

Goes in: the tasks of a reservation, or the pods of a gang. Comes out: their order. Of each resource it counts how much
of the most that any of them asks for it is, and of one request first the resource of which that is most. So whatever
asks for no more than another of anything is no larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from restow.model.objects import Container, Pod, Reservation, ResourceRequirements, TaskSpec
from restow.model.quantity import QuantityError
from restow.model.resources import Vector, pod_requests, template_requests

Sized = tuple[str, Vector]
"""A task and what each of its pods asks for."""


class Sizes:
    """The tasks of reservations by size, worked out once for each."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[Sequence[TaskSpec], list[Sized]]] = {}

    def tasks(self, reservation: Reservation) -> list[Sized]:
        """The smallest first, by name among equals."""
        uid, tasks = reservation.metadata.uid, reservation.spec.tasks or ()
        known = self._known.get(uid)
        if known is None or known[0] is not tasks:
            known = self._known[uid] = (tasks, _smallest_first(tasks))
        return known[1]


def largest_first(pods: Sequence[Pod]) -> list[Pod]:
    """In the order in which they are, among equals."""
    sizes = _sizes([pod_requests(pod) for pod in pods])
    return [pods[place] for place in sorted(range(len(pods)), key=sizes.__getitem__, reverse=True)]


def weightless(pod: Pod) -> Pod:
    """The same pod, as if it asked for nothing."""
    spec = pod.spec
    containers, init_containers = _unsized(spec.containers), _unsized(spec.init_containers)
    lighter = replace(spec, containers=containers, init_containers=init_containers, overhead=None, resources=None)
    return replace(pod, spec=lighter)


def _unsized(containers: Sequence[Container] | None) -> list[Container]:
    return [replace(one, resources=ResourceRequirements()) for one in containers or ()]


def _smallest_first(tasks: Iterable[TaskSpec]) -> list[Sized]:
    asked = sorted({task.name: _asked(task) for task in tasks}.items())
    sizes = _sizes([vector for _, vector in asked])
    return [asked[place] for place in sorted(range(len(asked)), key=sizes.__getitem__)]


def _asked(task: TaskSpec) -> Vector:
    try:
        return template_requests(task.template.spec)
    except QuantityError:  # then it has no seats
        return {}


def _sizes(requests: Sequence[Vector]) -> list[list[float]]:
    most: dict[str, int] = {}
    for one in requests:
        for name, amount in one.items():
            most[name] = max(most.get(name, 0), amount)
    return [
        sorted((amount / most[name] for name, amount in one.items() if amount > 0), reverse=True) for one in requests
    ]
