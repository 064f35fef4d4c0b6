"""The `queues` section of the configuration.

Goes in: the section as a map. Comes out: `QueueArguments`, or all problems at once, with their paths.

    queues:
      relockPeriod: 5s                          how often the locks are decided anew
      maxGuaranteed: {cpu: 60, memory: 40}      what all guarantees together may take, in percent of the cluster
      maxGuaranteedPerQueue: 30                 what the guarantee of one queue may take
      maxGuaranteedOf: {ml: {cpu: 50}}          the same, for single queues by name

A ceiling is a number for every resource, or a map by resource; a resource that is not in the map has the default, 50.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from restow.model.names import subdomain_problems
from restow.model.objects import Duration
from restow.model.problems import Problem
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable
from restow.queues.admission_parameters import MAX_QUEUE_NAME_LENGTH
from restow.queues.guarantee_ceilings import DEFAULT_CEILING, Ceiling, GuaranteeCeilings
from restow.queues.node_locks import LockOptions

SECTION: Final = "queues"
MIN_RELOCK_PERIOD: Final = 0.1


class QueuesSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The section as written."""

    relock_period: Duration = "5s"
    max_guaranteed: int | dict[str, int] = DEFAULT_CEILING
    max_guaranteed_per_queue: int | dict[str, int] = DEFAULT_CEILING
    max_guaranteed_of: dict[str, int | dict[str, int]] = {}


class QueueArguments(msgspec.Struct, frozen=True):
    relock_period: float = 5.0
    """Seconds."""
    ceilings: GuaranteeCeilings = GuaranteeCeilings()

    @property
    def lock_options(self) -> LockOptions:
        return LockOptions(ceilings=self.ceilings)


def read_queue_arguments(section: Mapping[str, Any]) -> QueueArguments:
    """Check the section. Raises WireError with every problem."""
    written, problems = convert_readable(QueuesSection, section, SECTION)
    problems += _section_problems(written)
    if problems:
        raise WireError(SECTION, problems)
    return QueueArguments(
        parse_duration(written.relock_period),
        GuaranteeCeilings(written.max_guaranteed, written.max_guaranteed_per_queue, written.max_guaranteed_of),
    )


def _section_problems(written: QueuesSection) -> Iterator[Problem]:
    if parse_duration(written.relock_period) < MIN_RELOCK_PERIOD:
        yield Problem("relockPeriod", f"{written.relock_period} is shorter than 100ms")
    yield from _ceiling_problems("maxGuaranteed", written.max_guaranteed)
    yield from _ceiling_problems("maxGuaranteedPerQueue", written.max_guaranteed_per_queue)
    for name, ceiling in sorted(written.max_guaranteed_of.items()):
        for problem in _queue_name_problems(name):
            yield Problem("maxGuaranteedOf", f"{name!r} is not the name of a queue: {problem}")
        yield from _ceiling_problems(f"maxGuaranteedOf.{name}", ceiling)


def _queue_name_problems(name: str) -> tuple[str, ...]:
    problems = subdomain_problems(name)
    if not problems and len(name) > MAX_QUEUE_NAME_LENGTH:
        return (f"must be no longer than {MAX_QUEUE_NAME_LENGTH} characters",)
    return problems


def _ceiling_problems(path: str, ceiling: Ceiling) -> Iterator[Problem]:
    percents = {path: ceiling} if isinstance(ceiling, int) else {f"{path}.{name}": ceiling[name] for name in ceiling}
    for place, percent in sorted(percents.items()):
        if not 0 <= percent <= 100:
            yield Problem(place, f"{percent} is not between 0 and 100")
