"""The sizes of tasks and pods: which is larger, so that a small pod leaves the large seat to a large pod.

Goes in: the tasks of a reservation, or the pods of a gang. Comes out: their order. Every request is divided by the
largest request of that resource among them, and these fractions are compared, the largest of each first. So a pod that
requests no more than another of any resource is not larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from restow.model.objects import Container, Pod, Reservation, ResourceRequirements, TaskSpec
from restow.model.quantity import QuantityError
from restow.model.resources import Vector, pod_requests, template_requests

Sized = tuple[str, Vector]
"""The name of a task, and what each of its pods requests."""


class TaskSizes:
    """The tasks of reservations by size, worked out once per spec."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[Sequence[TaskSpec], list[Sized]]] = {}

    def smallest_first(self, reservation: Reservation) -> list[Sized]:
        """The tasks of a reservation, the smallest first, by name among equals."""
        uid, tasks = reservation.metadata.uid, reservation.spec.tasks or ()
        known = self._known.get(uid)
        if known is None or known[0] is not tasks:
            known = self._known[uid] = (tasks, _smallest_first(tasks))
        return known[1]


def largest_first(pods: Sequence[Pod]) -> list[Pod]:
    """Pods, the largest first; equal ones stay in their order."""
    sizes = _sizes([pod_requests(pod) for pod in pods])
    return [pods[place] for place in sorted(range(len(pods)), key=sizes.__getitem__, reverse=True)]


def without_requests(pod: Pod) -> Pod:
    """The same pod without any requests and limits."""
    spec = pod.spec
    containers, init_containers = _unsized(spec.containers), _unsized(spec.init_containers)
    lighter = replace(spec, containers=containers, init_containers=init_containers, overhead=None, resources=None)
    return replace(pod, spec=lighter)


def _unsized(containers: Sequence[Container] | None) -> list[Container]:
    return [replace(container, resources=ResourceRequirements()) for container in containers or ()]


def _smallest_first(tasks: Iterable[TaskSpec]) -> list[Sized]:
    asked = sorted({task.name: _asked(task) for task in tasks}.items())
    sizes = _sizes([vector for _, vector in asked])
    return [asked[place] for place in sorted(range(len(asked)), key=sizes.__getitem__)]


def _asked(task: TaskSpec) -> Vector:
    try:
        return template_requests(task.template.spec)
    except QuantityError:  # such a task has no seats
        return {}


def _sizes(requests: Sequence[Vector]) -> list[list[float]]:
    most: dict[str, int] = {}
    for vector in requests:
        for name, amount in vector.items():
            most[name] = max(most.get(name, 0), amount)
    return [
        sorted((amount / most[name] for name, amount in vector.items() if amount > 0), reverse=True)
        for vector in requests
    ]
