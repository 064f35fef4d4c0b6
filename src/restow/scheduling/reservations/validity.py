"""What a reservation asks for, and whether it asks for something that can be.

Goes in: a Reservation as somebody wrote it. Comes out: how many seats of each task it wants, how many of them it cannot
do without, whether they ask for more than they were given, and every problem of its spec with the path of the field.
The API server checks the same where it knows how to; it knows nothing of quantities inside templates, of names that
occur twice, or of sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from restow.model.names import dns_label_problems
from restow.model.objects import MatchPolicy, Placement, Reservation, ReservationSpec, TaskSpec
from restow.model.problems import Problem, find_problems
from restow.model.quantity import QuantityError
from restow.model.resources import Vector, add, amounts, fits, scale, template_requests
from restow.model.selectors import SelectorError, label_selector
from restow.model.times import TimeError, parse_duration

MOST_SEATS = 5000
"""More placements than this make an object that no API server stores."""


def replicas(task: TaskSpec) -> int:
    """How many seats a task has; one where it does not say."""
    return 1 if task.replicas is None else max(task.replicas, 0)


def wanted(reservation: Reservation) -> dict[str, int]:
    """How many seats each task has."""
    return {task.name: replicas(task) for task in reservation.spec.tasks or ()}


def least(reservation: Reservation) -> int:
    """How many seats must be held at once: minAvailable, which is all of them where it does not say."""
    return reservation.spec.min_available or sum(wanted(reservation).values())


def is_for(reservation: Reservation, names: frozenset[str]) -> bool:
    """Whether a scheduler of these names looks after it. One that names none anywhere is for any: it is our kind."""
    spec = reservation.spec
    named = [task.template.spec.scheduler_name for task in spec.tasks or ()]
    return all(name in names for name in (spec.scheduler_name, *named) if name)


def asked_for(reservation: Reservation, placements: Iterable[Placement]) -> Vector:
    """What the seats at these placements ask for together. Raises QuantityError."""
    each = {task.name: template_requests(task.template.spec) for task in reservation.spec.tasks or ()}
    total: Vector = {}
    for task, count in Counter(one.task for one in placements).items():
        total = add(total, scale(each.get(task, {}), count))
    return total


def is_changed(reservation: Reservation) -> bool:
    """Whether somebody changed its spec after it was last decided about."""
    observed = reservation.status.observed_generation
    return observed is not None and observed != reservation.metadata.generation


def has_grown(reservation: Reservation) -> bool:
    """Whether its seats ask for more than they were given when it was last decided about, which its status says."""
    if not is_changed(reservation):
        return False
    status = reservation.status
    try:
        return not fits(asked_for(reservation, status.placements or ()), amounts(status.allocatable))
    except QuantityError:  # whatever that is, nobody gave it
        return True


def problems(reservation: Reservation) -> list[Problem]:
    """Everything that is wrong with the spec, by path."""
    spec = reservation.spec
    found = find_problems(ReservationSpec, msgspec.to_builtins(spec), marks=True)
    found += [*_of_tasks(spec), *_of_sums(spec), *_of_owners(spec), *_of_terms(spec)]
    return sorted(Problem(f"spec.{one.path}", one.message) for one in found)


def _of_tasks(spec: ReservationSpec) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for number, task in enumerate(spec.tasks or ()):
        path = f"tasks[{number}]"
        if task.name in first:
            yield Problem(f"{path}.name", f"{task.name!r} is the name of tasks[{first[task.name]}], too")
        first.setdefault(task.name, number)
        yield from (Problem(f"{path}.name", problem) for problem in dns_label_problems(task.name))
        if (task.replicas or 0) < 0:
            yield Problem(f"{path}.replicas", f"{task.replicas} is negative")


def _of_sums(spec: ReservationSpec) -> Iterator[Problem]:
    seats = sum(replicas(task) for task in spec.tasks or ())
    if not seats:
        yield Problem("tasks", "there is no seat to hold")
    if seats > MOST_SEATS:
        yield Problem("tasks", f"{seats} seats are more than {MOST_SEATS}")
    asked = spec.min_available or 0
    if asked < 0:
        yield Problem("minAvailable", f"{asked} is negative")
    if asked > seats:
        yield Problem("minAvailable", f"{asked} is more than the {seats} seats there are")


def _of_owners(spec: ReservationSpec) -> Iterator[Problem]:
    for number, owner in enumerate(spec.owners or ()):
        try:
            label_selector(owner.label_selector)
        except SelectorError as error:
            yield Problem(f"owners[{number}].labelSelector", str(error))


def _of_terms(spec: ReservationSpec) -> Iterator[Problem]:
    if spec.match_policy is not None and spec.match_policy not in set(MatchPolicy):
        yield Problem("matchPolicy", f"{spec.match_policy!r} is neither {' nor '.join(MatchPolicy)}")
    if spec.ttl and _seconds(spec.ttl) < 0:
        yield Problem("ttl", f"{spec.ttl} is negative")


def _seconds(ttl: str) -> float:
    try:
        return parse_duration(ttl)
    except TimeError:  # said already
        return 0.0
