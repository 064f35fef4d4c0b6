"""The configuration file: one YAML document with a section for each component.

Takes the bytes of the file; returns the sections as written, which each component parses itself, or raises one error
with every problem in all sections and its path. Unknown sections are refused, because a misspelt one would silently
have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from restow.eviction.protections import Protections
from restow.migration.arguments import MigrationArguments as MigrationArguments
from restow.migration.arguments import read_migration_arguments as read_migration
from restow.model.problems import Problem
from restow.model.reservations.settings import ReservationSettings as ReservationArguments
from restow.model.reservations.settings import read_reservation_settings as read_reservations
from restow.model.wire import WireError, convert_document, locate_documents
from restow.planning.descheduling.default_evictor import allowed_options
from restow.planning.descheduling.policy import DEFAULT_EVICTOR, DeschedulerPolicy
from restow.planning.descheduling.policy_section import read_policy
from restow.queues.arguments import QueueArguments as QueueArguments
from restow.queues.arguments import read_queue_arguments as read_queues
from restow.running.plugins import descheduling_plugins, scheduling_plugins
from restow.scheduling.registry import Profile, SchedulerSection, read_profile


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The sections as written."""

    scheduler: dict[str, Any] = {}
    descheduler: dict[str, Any] = {}
    migration: dict[str, Any] = {}
    reservations: dict[str, Any] = {}
    queues: dict[str, Any] = {}

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The schedulerNames of the pods that Restow handles; empty if the section is invalid, which `read_scheduler`
        reports."""
        try:
            return frozenset(convert_document(SchedulerSection, self.scheduler).scheduler_names)
        except WireError:
            return frozenset()

    # The parsed sections. Each raises WireError.

    def read_scheduler(self) -> Profile:
        return read_profile(self.scheduler, scheduling_plugins())

    def read_descheduler(self) -> DeschedulerPolicy:
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
    """Read the file and validate every section. Raises WireError with every problem."""
    located = locate_documents(data, name)
    if len(located) > 1:
        raise WireError(name, [Problem("", f"expected one document, found {len(located)}")])
    written = located[0].document if located else {}
    problems: list[Problem] = []
    try:
        convert_document(Configuration, written)
    except WireError as error:
        problems += error.problems
    known = {key: value for key, value in written.items() if key in Configuration.__struct_fields__}
    configuration = convert_document(
        Configuration, {key: value for key, value in known.items() if isinstance(value, dict)}
    )
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
            for problem in error.problems:
                yield Problem(f"{error.what}.{problem.path}" if problem.path else error.what, problem.message)


def _problems_together(configuration: Configuration) -> Iterator[Problem]:
    """Sections that are valid by themselves and contradict each other."""
    migration = configuration.read_migration()
    kept, rest = migration.finished_ttl, configuration.read_descheduler().longest_cool_down
    if rest > kept:
        message = f"is {kept:g}s, shorter than coolDownTime {rest:g}s; cool-down is derived from finished jobs"
        yield Problem("migration.finishedJobTTL", message)
    yield from _ineffective_permissions(configuration.descheduler, migration.protections)


def _ineffective_permissions(section: dict[str, Any], protections: Protections) -> Iterator[Problem]:
    """Pods that a profile allows to evict although the section `migration` protects them."""
    options = {
        "evictLocalStoragePods": protections.evict_local_storage_pods,
        "evictSystemCriticalPods": protections.evict_system_critical_pods,
        "evictFailedBarePods": protections.evict_failed_bare_pods or protections.evict_all_bare_pods,
    }
    for path, arguments in _evictors(section):
        for field, option in allowed_options(arguments):
            if not options[option]:
                yield Problem(f"{path}.{field}", f"has no effect unless migration.{option} is true")


def _evictors(section: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The arguments of every profile's default evictor, with their paths."""
    for number, profile in enumerate(section.get("profiles") or ()):
        for index, plugin in enumerate(profile.get("pluginConfig") or ()):
            if plugin["name"] == DEFAULT_EVICTOR:
                yield f"descheduler.profiles[{number}].pluginConfig[{index}].args", plugin.get("args") or {}
