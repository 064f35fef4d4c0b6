"""The `migration` section of the configuration: the arguments of the migration controller.

Goes in: the section as a map. Comes out: `MigrationArguments`, checked. The fields are those of Koordinator's
MigrationControllerArgs, with its defaults; added are `enabled`, `minReplicas`, `waitingTTL` and `finishedJobTTL`.
All problems are reported together, each with its path.

    migration:
      maxMigratingPerNode: 2
      maxMigratingPerWorkload: 10%
      evictQPS: 10
      objectLimiters: {workload: {duration: 5m, maxMigrating: 2}}
      namespaces: {exclude: [kube-system]}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, dataclass_transform

import msgspec
from msgspec import field

from restow.eviction.protections import Protections
from restow.migration.limits import EvictionWindow, MigrationLimits
from restow.model.int_or_percent import int_or_percent_problem
from restow.model.objects import Duration, JobMode, SelectorRequirement, SelectorSpec
from restow.model.problems import Problem
from restow.model.selectors import (
    EVERYTHING,
    LabelSelector,
    SelectorError,
    label_selector,
    parse_label_selector,
)
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable

SECTION: Final = "migration"
KIND: Final = "MigrationControllerArgs"
POLICIES: Final = ("Eviction", "Delete")
PROPAGATION: Final = ("Foreground", "Background", "Orphan")
GATES: Final = (
    "MaxUnavailablePerWorkload",
    "MaxMigratingPerWorkload",
    "MaxMigratingPerNode",
    "MaxMigratingPerNamespace",
    "MaxMigratingGlobally",
    "ExpectedReplicas",
    "PVC",
    "BarePods",
    "LocalStorage",
    "SystemCritical",
    "PriorityThreshold",
    "LabelSelector",
    "Namespaces",
    "NodeFit",
)
LIMITED: Final = ("workload", "namespace")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class _StrictStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A map without unknown keys."""


class NamespacesArgs(_StrictStruct):
    include: list[str] = []
    exclude: list[str] = []


class ThresholdArgs(_StrictStruct):
    value: int | None = None
    name: str | None = None


class RequirementArgs(_StrictStruct):
    key: str
    operator: str
    values: list[str] = []


class SelectorArgs(_StrictStruct):
    match_labels: dict[str, str] = {}
    match_expressions: list[RequirementArgs] = []


class LimiterArgs(_StrictStruct):
    duration: Duration = "5m"
    max_migrating: int | str | None = None


_DEFAULT_LIMITERS: Final = {"workload": LimiterArgs()}


class DeleteOptionsArgs(_StrictStruct):
    api_version: str | None = None
    kind: str | None = None
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None


class ArbitrationArgs(_StrictStruct):
    enabled: bool = True
    interval: Duration = "500ms"


class MigrationSection(_StrictStruct):
    """The section as written."""

    api_version: str | None = None
    kind: str | None = None
    enabled: bool = True
    dry_run: bool = False
    max_concurrent_reconciles: int = 1
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: ThresholdArgs | None = None
    label_selector: SelectorArgs | None = None
    namespaces: NamespacesArgs | None = None
    node_fit: bool = False
    node_selector: str | None = None
    min_replicas: int = 0
    skip_eviction_gates: list[str] = []
    max_migrating_globally: int | None = None
    max_migrating_per_node: int | None = 2
    max_migrating_per_namespace: int | None = None
    max_migrating_per_workload: int | str | None = None
    max_unavailable_per_workload: int | str | None = None
    skip_check_expected_replicas: bool | None = None
    object_limiters: dict[str, LimiterArgs] | None = None
    default_job_mode: str = JobMode.RESERVATION_FIRST
    default_job_ttl: Duration = field(name="defaultJobTTL", default="5m")
    waiting_ttl: Duration = field(name="waitingTTL", default="1h")
    finished_job_ttl: Duration = field(name="finishedJobTTL", default="1h")
    scheduler_names: list[str] | None = None
    evict_qps: float | str = field(name="evictQPS", default=10.0)
    evict_burst: int = 1
    eviction_policy: str = "Eviction"
    default_delete_options: DeleteOptionsArgs | None = None
    arbitration_args: ArbitrationArgs = ArbitrationArgs()


class MigrationArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The checked arguments of the migration controller."""

    enabled: bool = True
    dry_run: bool = False
    """Create no reservation and evict no pod, but say what would have been done."""
    workers: int = 1
    protections: Protections = Protections()
    limits: MigrationLimits = MigrationLimits()
    requires_reservation: bool = False
    """Refuse jobs that evict without a reservation: nothing shows that another node fits."""
    default_mode: str = JobMode.RESERVATION_FIRST
    default_ttl: float = 300.0
    """Seconds from admission to the end; 0 for no limit."""
    waiting_ttl: float = 3600.0
    """Seconds that a job may wait for admission; 0 for no limit."""
    finished_ttl: float = 3600.0
    """Seconds for which an ended job is kept, as history."""
    evictions_per_second: float = 10.0
    eviction_burst: int = 1
    eviction_policy: str = "Eviction"
    grace_seconds: int | None = None
    propagation_policy: str | None = None
    arbitration_interval: float = 0.5
    """Minimum seconds between two arbitrations."""


def read_migration_arguments(section: Mapping[str, Any], scheduler_names: frozenset[str]) -> MigrationArguments:
    """Check the section. `scheduler_names` are the schedulers whose pods are moved if the section names none. Raises
    WireError with all problems."""
    written, problems = convert_readable(MigrationSection, section, SECTION)
    problems += _section_problems(written)
    if problems:
        raise WireError(SECTION, problems)
    options = written.default_delete_options or DeleteOptionsArgs()
    return MigrationArguments(
        enabled=written.enabled,
        dry_run=written.dry_run,
        workers=written.max_concurrent_reconciles,
        protections=_protections(written, scheduler_names),
        limits=_limits(written),
        requires_reservation=written.node_fit and "NodeFit" not in written.skip_eviction_gates,
        default_mode=written.default_job_mode,
        default_ttl=parse_duration(written.default_job_ttl),
        waiting_ttl=parse_duration(written.waiting_ttl),
        finished_ttl=parse_duration(written.finished_job_ttl),
        evictions_per_second=_parse_rate(written.evict_qps),
        eviction_burst=written.evict_burst,
        eviction_policy=written.eviction_policy,
        grace_seconds=options.grace_period_seconds,
        propagation_policy=options.propagation_policy,
        arbitration_interval=parse_duration(written.arbitration_args.interval),
    )


def _protections(written: MigrationSection, scheduler_names: frozenset[str]) -> Protections:
    skipped = frozenset(written.skip_eviction_gates)
    threshold = written.priority_threshold if "PriorityThreshold" not in skipped else None
    namespaces = (written.namespaces if "Namespaces" not in skipped else None) or NamespacesArgs()
    return Protections(
        evict_failed_bare_pods=written.evict_failed_bare_pods,
        evict_all_bare_pods=written.evict_all_bare_pods or "BarePods" in skipped,
        evict_local_storage_pods=written.evict_local_storage_pods or "LocalStorage" in skipped,
        evict_system_critical_pods=written.evict_system_critical_pods or "SystemCritical" in skipped,
        ignore_pvc_pods=written.ignore_pvc_pods and "PVC" not in skipped,
        priority_threshold=threshold.value if threshold else None,
        priority_threshold_name=threshold.name if threshold else None,
        selector=_selector(written.label_selector if "LabelSelector" not in skipped else None),
        node_selector=parse_label_selector(written.node_selector or ""),
        include_namespaces=frozenset(namespaces.include),
        exclude_namespaces=frozenset(namespaces.exclude),
        scheduler_names=frozenset(written.scheduler_names or scheduler_names),
        min_replicas=written.min_replicas,
    )


def _limits(written: MigrationSection) -> MigrationLimits:
    skipped = frozenset(written.skip_eviction_gates)
    windows = written.object_limiters or _DEFAULT_LIMITERS
    return MigrationLimits(
        globally=written.max_migrating_globally if "MaxMigratingGlobally" not in skipped else None,
        per_node=written.max_migrating_per_node if "MaxMigratingPerNode" not in skipped else None,
        per_namespace=written.max_migrating_per_namespace if "MaxMigratingPerNamespace" not in skipped else None,
        per_workload=written.max_migrating_per_workload,
        unavailable_per_workload=written.max_unavailable_per_workload,
        check_per_workload="MaxMigratingPerWorkload" not in skipped,
        check_unavailable="MaxUnavailablePerWorkload" not in skipped,
        refuse_small_workloads=written.skip_check_expected_replicas is False and "ExpectedReplicas" not in skipped,
        workload_window=_window(windows.get("workload")),
        namespace_window=_window(windows.get("namespace")),
    )


def _window(written: LimiterArgs | None) -> EvictionWindow | None:
    """The window; None for one without length, which limits nothing."""
    seconds = parse_duration(written.duration) if written else 0.0
    return EvictionWindow(seconds, written.max_migrating) if written and seconds else None


# --- checks -----------------------------------------------------------------------------------------------------------


def _section_problems(written: MigrationSection) -> Iterator[Problem]:
    yield from _name_problems(written)
    yield from _number_problems(written)
    yield from _duration_problems(written)
    yield from _selector_problems(written)
    yield from _contradictions(written)
    yield from _limiter_problems(written)


def _name_problems(written: MigrationSection) -> Iterator[Problem]:
    if written.kind not in (None, KIND):
        yield Problem("kind", f"expected {KIND}, got {written.kind!r}")
    modes = [str(mode) for mode in JobMode]
    if written.default_job_mode not in modes:
        yield _unknown_value("defaultJobMode", written.default_job_mode, modes)
    if written.eviction_policy not in POLICIES:
        yield _unknown_value("evictionPolicy", written.eviction_policy, POLICIES)
    for number, gate in enumerate(written.skip_eviction_gates):
        if gate not in GATES:
            yield _unknown_value(f"skipEvictionGates[{number}]", gate, GATES)
    for number, name in enumerate(written.scheduler_names or ()):
        if not name:
            yield Problem(f"schedulerNames[{number}]", "must not be empty")
    options = written.default_delete_options or DeleteOptionsArgs()
    if options.propagation_policy not in (None, *PROPAGATION):
        yield _unknown_value("defaultDeleteOptions.propagationPolicy", str(options.propagation_policy), PROPAGATION)
    if not written.arbitration_args.enabled:
        yield Problem("arbitrationArgs.enabled", "arbitration cannot be left out; raise the limits instead")


def _number_problems(written: MigrationSection) -> Iterator[Problem]:
    options = written.default_delete_options or DeleteOptionsArgs()
    for path, value, least in (
        ("maxConcurrentReconciles", written.max_concurrent_reconciles, 1),
        ("minReplicas", written.min_replicas, 0),
        ("maxMigratingGlobally", written.max_migrating_globally, 0),
        ("maxMigratingPerNode", written.max_migrating_per_node, 0),
        ("maxMigratingPerNamespace", written.max_migrating_per_namespace, 0),
        ("evictBurst", written.evict_burst, 1),
        ("defaultDeleteOptions.gracePeriodSeconds", options.grace_period_seconds, 0),
    ):
        if value is not None and value < least:
            yield Problem(path, f"must be at least {least}, is {value}")
    for path, share in (
        ("maxMigratingPerWorkload", written.max_migrating_per_workload),
        ("maxUnavailablePerWorkload", written.max_unavailable_per_workload),
    ):
        if share is not None and (problem := int_or_percent_problem(share)):
            yield Problem(path, problem)
    rate = _parse_rate(written.evict_qps)
    if not (math.isfinite(rate) and rate > 0):
        yield Problem("evictQPS", f"expected a number above 0, got {written.evict_qps!r}")


def _duration_problems(written: MigrationSection) -> Iterator[Problem]:
    limiters = written.object_limiters or {}
    for path, text in (
        ("defaultJobTTL", written.default_job_ttl),
        ("waitingTTL", written.waiting_ttl),
        ("finishedJobTTL", written.finished_job_ttl),
        ("arbitrationArgs.interval", written.arbitration_args.interval),
        *((f"objectLimiters.{name}.duration", limiter.duration) for name, limiter in limiters.items()),
    ):
        if parse_duration(text) < 0:
            yield Problem(path, f"must not be negative, is {text}")
    for name, limiter in (written.object_limiters or _DEFAULT_LIMITERS).items():
        if name in LIMITED and parse_duration(limiter.duration) > parse_duration(written.finished_job_ttl):
            needed = f"objectLimiters.{name}.duration, {limiter.duration}, for which jobs are remembered"
            yield Problem("finishedJobTTL", f"{written.finished_job_ttl} is shorter than {needed}")


def _selector_problems(written: MigrationSection) -> Iterator[Problem]:
    try:
        _selector(written.label_selector)
    except SelectorError as error:
        yield Problem("labelSelector", str(error))
    try:
        parse_label_selector(written.node_selector or "")
    except SelectorError as error:
        yield Problem("nodeSelector", str(error))


def _contradictions(written: MigrationSection) -> Iterator[Problem]:
    """Fields that contradict each other."""
    namespaces, threshold = written.namespaces or NamespacesArgs(), written.priority_threshold
    if namespaces.include and namespaces.exclude:
        yield Problem("namespaces", "include and exclude cannot both be set")
    if threshold is not None and (threshold.value is None) == (threshold.name is None):
        yield Problem("priorityThreshold", "either value or name must be set, not both")
    if written.node_fit and written.default_job_mode == JobMode.EVICT_DIRECTLY:
        yield Problem("nodeFit", "needs defaultJobMode ReservationFirst: only a seat shows that a node fits")


def _limiter_problems(written: MigrationSection) -> Iterator[Problem]:
    for name, limiter in (written.object_limiters or {}).items():
        path = f"objectLimiters.{name}"
        if name not in LIMITED:
            yield _unknown_value(path, name, LIMITED)
        if limiter.max_migrating is not None and (problem := int_or_percent_problem(limiter.max_migrating)):
            yield Problem(f"{path}.maxMigrating", problem)
        elif name == "namespace" and not isinstance(limiter.max_migrating, int):
            yield Problem(f"{path}.maxMigrating", "a number is needed: a namespace has no replicas to take a share of")


def _unknown_value(path: str, value: str, known: Iterable[str]) -> Problem:
    return Problem(path, f"{value!r} is not one of {', '.join(known)}")


def _selector(written: SelectorArgs | None) -> LabelSelector:
    if written is None:
        return EVERYTHING
    expressions = [
        SelectorRequirement(key=item.key, operator=item.operator, values=item.values or None)
        for item in written.match_expressions
    ]
    return label_selector(SelectorSpec(match_labels=written.match_labels, match_expressions=expressions))


def _parse_rate(written: float | str) -> float:
    try:
        return float(written)
    except ValueError:
        return math.nan
