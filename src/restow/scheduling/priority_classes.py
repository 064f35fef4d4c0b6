"""The priority classes of the cluster, and the priority that a reservation has by them."""

from __future__ import annotations

from restow.model.objects import PodSpec, PriorityClass, Reservation


class PriorityClasses:
    def __init__(self) -> None:
        self.default_name = ""
        """The class of pods that name none, if there is one."""
        self._values: dict[str, int] = {}

    def apply(self, priority_class: PriorityClass) -> None:
        name = priority_class.metadata.name
        self._values[name] = priority_class.value or 0
        if priority_class.global_default:
            self.default_name = name
        elif self.default_name == name:
            self.default_name = ""

    def remove(self, priority_class: PriorityClass) -> None:
        name = priority_class.metadata.name
        self._values.pop(name, None)
        if self.default_name == name:
            self.default_name = ""

    def value(self, name: str) -> int | None:
        return self._values.get(name)

    def missing_class(self, reservation: Reservation) -> str | None:
        """A priority class that a reservation names and that does not exist: no pod could come to take its seat."""
        specs = [task.template.spec for task in reservation.spec.tasks or () if task.template.spec.priority is None]
        named = [spec.priority_class_name for spec in specs if spec.priority_class_name]
        return next((name for name in named if name not in self._values), None)

    def reservation_priority(self, reservation: Reservation) -> int:
        """The priority of the most important pod it is for, as the API server will set it."""
        specs = [task.template.spec for task in reservation.spec.tasks or ()]
        return max((self._future_priority(spec) for spec in specs), default=0)

    def _future_priority(self, spec: PodSpec) -> int:
        if spec.priority is not None:
            return spec.priority
        return self._values.get(spec.priority_class_name or self.default_name, 0)
