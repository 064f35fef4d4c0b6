"""The configuration file: one YAML document with a section per part.

Goes in: the file. Comes out: the sections as written, each of which its own part can read; or everything that is wrong
in any of them, at once, with paths. Unknown sections are refused, so that a misspelt one is not silently without
effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from restow.eviction.protections import Protections
from restow.migration.arguments import Arguments as MigrationArguments
from restow.migration.arguments import read_arguments as read_migration
from restow.model.problems import Problem
from restow.model.wire import WireError, convert, locate_documents
from restow.planning.descheduling.evictor import allowed
from restow.planning.descheduling.policy import DEFAULT_EVICTOR, Policy, read_policy
from restow.queues.arguments import Arguments as QueueArguments
from restow.queues.arguments import read_arguments as read_queues
from restow.running.plugins import descheduling_plugins, scheduling_plugins
from restow.scheduling.registry import Profile, SchedulerSection, read_profile
from restow.scheduling.reservations.arguments import Arguments as ReservationArguments
from restow.scheduling.reservations.arguments import read_arguments as read_reservations


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sections as written."""

    scheduler: dict[str, Any] = {}
    descheduler: dict[str, Any] = {}
    migration: dict[str, Any] = {}
    reservations: dict[str, Any] = {}
    queues: dict[str, Any] = {}

    @property
    def scheduler_names(self) -> frozenset[str]:
        """Whose pods are ours; a section that cannot be read is the scheduler's to complain about."""
        try:
            return frozenset(convert(SchedulerSection, self.scheduler).scheduler_names)
        except WireError:
            return frozenset()

    # What the sections say; each raises WireError.

    def read_scheduler(self) -> Profile:
        return read_profile(self.scheduler, scheduling_plugins())

    def read_descheduler(self) -> Policy:
        return read_policy(self.descheduler, descheduling_plugins())

    def read_migration(self) -> MigrationArguments:
        return read_migration(self.migration, self.scheduler_names)

    def read_reservations(self) -> ReservationArguments:
        return read_reservations(self.reservations)

    def read_queues(self) -> QueueArguments:
        return read_queues(self.queues)


_READERS: Final[tuple[Callable[[Configuration], object], ...]] = (
    Configuration.read_scheduler,
    Configuration.read_descheduler,
    Configuration.read_migration,
    Configuration.read_reservations,
    Configuration.read_queues,
)


def read_configuration(data: bytes, name: str) -> Configuration:
    """Read the file, and see whether every part can read its section. Raises WireError."""
    located = locate_documents(data, name)
    if len(located) > 1:
        raise WireError(name, [Problem("", f"one document is expected, {len(located)} are there")])
    written = located[0].document if located else {}
    problems: list[Problem] = []
    try:
        convert(Configuration, written)
    except WireError as error:
        problems += error.problems
    known = {key: value for key, value in written.items() if key in Configuration.__struct_fields__}
    configuration = convert(Configuration, {key: value for key, value in known.items() if isinstance(value, dict)})
    problems += _problems(configuration)
    problems += [] if problems else _problems_together(configuration)
    if problems:
        raise WireError(name, problems)
    return configuration


def _problems(configuration: Configuration) -> Iterator[Problem]:
    for read in _READERS:
        try:
            read(configuration)
        except WireError as error:
            for one in error.problems:
                yield Problem(f"{error.what}.{one.path}" if one.path else error.what, one.message)


def _problems_together(configuration: Configuration) -> Iterator[Problem]:
    """What sections that make sense alone do not make together."""
    migration = configuration.read_migration()
    kept, rest = migration.finished_ttl, configuration.read_descheduler().cool_down
    if rest > kept:
        told = f"is {kept:g}s, shorter than a coolDownTime of {rest:g}s: ended jobs tell which nodes rest"
        yield Problem("migration.finishedJobTTL", told)
    yield from _vain_permissions(configuration.descheduler, migration.protections)


def _vain_permissions(section: dict[str, Any], protections: Protections) -> Iterator[Problem]:
    """What profiles allow to be evicted, and migrations do not."""
    options = {
        "evictLocalStoragePods": protections.evict_local_storage_pods,
        "evictSystemCriticalPods": protections.evict_system_critical_pods,
        "evictFailedBarePods": protections.evict_failed_bare_pods or protections.evict_all_bare_pods,
    }
    for path, arguments in _evictors(section):
        for field, option in allowed(arguments):
            if not options[option]:
                yield Problem(f"{path}.{field}", f"is without effect unless migration.{option} is true, too")


def _evictors(section: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The arguments of every profile's default evictor, and where they are written."""
    for number, profile in enumerate(section.get("profiles") or ()):
        for place, one in enumerate(profile.get("pluginConfig") or ()):
            if one["name"] == DEFAULT_EVICTOR:
                yield f"descheduler.profiles[{number}].pluginConfig[{place}].args", one.get("args") or {}
