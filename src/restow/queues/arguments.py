"""The `queues` section of the configuration.

Goes in: the section as a map. Comes out: `Arguments`, checked; every mistake is told at once, with its path.

    queues:
      relockPeriod: 5s                          between two looks at what is locked
      maxGuaranteed: {cpu: 60, memory: 40}      what all guarantees together may take, in percent of the cluster
      maxGuaranteedPerQueue: 30                 what the guarantee of one queue may take
      maxGuaranteedOf: {ml: {cpu: 50}}          the same, of single queues

A ceiling is a number for every dimension, or a map by dimension; a dimension that is not named has the default, 50.
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
from restow.queues.admission_parameters import LONGEST_NAME
from restow.queues.guarantee_ceilings import DEFAULT_CEILING, Ceiling, GuaranteeCeilings
from restow.queues.node_locks import LockOptions

SECTION: Final = "queues"
SHORTEST_PERIOD: Final = 0.1


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
    """Check what is written. Raises WireError."""
    written, found = convert_readable(QueuesSection, section, SECTION)
    found += _problems(written)
    if found:
        raise WireError(SECTION, found)
    return QueueArguments(
        parse_duration(written.relock_period),
        GuaranteeCeilings(written.max_guaranteed, written.max_guaranteed_per_queue, written.max_guaranteed_of),
    )


def _problems(written: QueuesSection) -> Iterator[Problem]:
    if parse_duration(written.relock_period) < SHORTEST_PERIOD:
        yield Problem("relockPeriod", f"{written.relock_period} is shorter than 100ms")
    yield from _no_percentages("maxGuaranteed", written.max_guaranteed)
    yield from _no_percentages("maxGuaranteedPerQueue", written.max_guaranteed_per_queue)
    for name, ceiling in sorted(written.max_guaranteed_of.items()):
        for problem in _no_queue(name):
            yield Problem("maxGuaranteedOf", f"{name!r} is not the name of a queue: {problem}")
        yield from _no_percentages(f"maxGuaranteedOf.{name}", ceiling)


def _no_queue(name: str) -> tuple[str, ...]:
    problems = subdomain_problems(name)
    return problems or ((f"must be no longer than {LONGEST_NAME} characters",) if len(name) > LONGEST_NAME else ())


def _no_percentages(path: str, ceiling: Ceiling) -> Iterator[Problem]:
    written = {path: ceiling} if isinstance(ceiling, int) else {f"{path}.{name}": ceiling[name] for name in ceiling}
    for where, percent in sorted(written.items()):
        if not 0 <= percent <= 100:
            yield Problem(where, f"{percent} is not between 0 and 100")
