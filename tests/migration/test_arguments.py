from __future__ import annotations

from typing import Any

import pytest

from restow.eviction.protections import Protections
from restow.migration.arguments import GATES, MigrationArguments, read_migration_arguments
from restow.migration.limits import EvictionWindow, MigrationLimits
from restow.model.selectors import parse_label_selector
from restow.model.wire import WireError

OURS = frozenset({"restow"})


def read(**section: Any) -> MigrationArguments:
    return read_migration_arguments(section, OURS)


def at(arguments: Any, path: str) -> Any:
    for name in path.split("."):
        arguments = getattr(arguments, name)
    return arguments


def test_an_empty_section_has_the_defaults_of_koordinator() -> None:
    assert read() == MigrationArguments(
        enabled=True,
        dry_run=False,
        workers=1,
        protections=Protections(scheduler_names=OURS),
        limits=MigrationLimits(per_node=2, workload_window=EvictionWindow(300.0)),
        requires_reservation=False,
        default_mode="ReservationFirst",
        default_ttl=300.0,
        waiting_ttl=3600.0,
        finished_ttl=3600.0,
        evictions_per_second=10.0,
        eviction_burst=1,
        eviction_policy="Eviction",
        grace_seconds=None,
        propagation_policy=None,
        arbitration_interval=0.5,
    )


EVERYTHING: dict[str, Any] = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "MigrationControllerArgs",
    "enabled": False,
    "dryRun": True,
    "maxConcurrentReconciles": 3,
    "evictFailedBarePods": True,
    "evictAllBarePods": True,
    "evictLocalStoragePods": True,
    "evictSystemCriticalPods": True,
    "ignorePvcPods": True,
    "priorityThreshold": {"value": 7},
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    "namespaces": {"include": ["shop"]},
    "nodeFit": True,
    "nodeSelector": "pool=a",
    "minReplicas": 2,
    "maxMigratingGlobally": 9,
    "maxMigratingPerNode": 3,
    "maxMigratingPerNamespace": 5,
    "maxMigratingPerWorkload": "20%",
    "maxUnavailablePerWorkload": 2,
    "skipCheckExpectedReplicas": False,
    "objectLimiters": {"workload": {"duration": "10m", "maxMigrating": 1}, "namespace": {"maxMigrating": 4}},
    "defaultJobMode": "ReservationFirst",
    "defaultJobTTL": "3m",
    "waitingTTL": "4m",
    "finishedJobTTL": "2h",
    "schedulerNames": ["mine"],
    "evictQPS": "2.5",
    "evictBurst": 5,
    "evictionPolicy": "Delete",
    "defaultDeleteOptions": {"gracePeriodSeconds": 10, "propagationPolicy": "Orphan"},
    "arbitrationArgs": {"enabled": True, "interval": "1s"},
}
PROTECTED = Protections(
    evict_failed_bare_pods=True,
    evict_all_bare_pods=True,
    evict_local_storage_pods=True,
    evict_system_critical_pods=True,
    ignore_pvc_pods=True,
    priority_threshold=7,
    selector=parse_label_selector("app"),
    node_selector=parse_label_selector("pool=a"),
    include_namespaces=frozenset({"shop"}),
    scheduler_names=frozenset({"mine"}),
    min_replicas=2,
)
LIMITED = MigrationLimits(
    globally=9,
    per_node=3,
    per_namespace=5,
    per_workload="20%",
    unavailable_per_workload=2,
    refuse_small_workloads=True,
    workload_window=EvictionWindow(600.0, 1),
    namespace_window=EvictionWindow(300.0, 4),
)
READ = MigrationArguments(
    enabled=False,
    dry_run=True,
    workers=3,
    protections=PROTECTED,
    limits=LIMITED,
    requires_reservation=True,
    default_ttl=180.0,
    waiting_ttl=240.0,
    finished_ttl=7200.0,
    evictions_per_second=2.5,
    eviction_burst=5,
    eviction_policy="Delete",
    grace_seconds=10,
    propagation_policy="Orphan",
    arbitration_interval=1.0,
)


def test_every_field_of_a_koordinator_configuration_is_read() -> None:
    assert read(**EVERYTHING) == READ


@pytest.mark.parametrize(
    ("section", "path", "value"),
    [
        ({"namespaces": {"exclude": ["b"]}}, "protections.exclude_namespaces", frozenset({"b"})),
        ({"priorityThreshold": {"name": "mid"}}, "protections.priority_threshold_name", "mid"),
        ({"defaultJobMode": "EvictDirectly"}, "default_mode", "EvictDirectly"),
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, "protections.selector", parse_label_selector("app=web")),
        ({"objectLimiters": {"workload": {"duration": "0s"}}}, "limits.workload_window", None),
    ],
    ids=["namespaces left out", "a threshold by its name", "no seat", "labels by value", "a window without length"],
)
def test_alternative_spellings_of_arguments_are_read(section: dict[str, Any], path: str, value: Any) -> None:
    assert at(read(**section), path) == value


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"dryrun": True}, "dryrun: unknown field (did you mean dryRun?)"),
        ({"colour": "red"}, "colour: unknown field"),
        ({"kind": "LowNodeLoadArgs"}, "kind: expected MigrationControllerArgs, got 'LowNodeLoadArgs'"),
        ({"maxConcurrentReconciles": 0}, "maxConcurrentReconciles: must be at least 1, is 0"),
        ({"maxMigratingPerNode": -1}, "maxMigratingPerNode: must be at least 0, is -1"),
        (
            {"maxMigratingPerWorkload": "ten"},
            "maxMigratingPerWorkload: expected a number or a percentage such as 25%, got 'ten'",
        ),
        ({"maxUnavailablePerWorkload": -2}, "maxUnavailablePerWorkload: must not be negative, is -2"),
        ({"defaultJobMode": "Now"}, "defaultJobMode: 'Now' is not one of ReservationFirst, EvictDirectly"),
        ({"defaultJobTTL": "-5m"}, "defaultJobTTL: must not be negative, is -5m"),
        ({"evictQPS": "fast"}, "evictQPS: expected a number above 0, got 'fast'"),
        ({"evictQPS": 0}, "evictQPS: expected a number above 0, got 0.0"),
        ({"evictBurst": 0}, "evictBurst: must be at least 1, is 0"),
        ({"evictionPolicy": "SoftEviction"}, "evictionPolicy: 'SoftEviction' is not one of Eviction, Delete"),
        ({"namespaces": {"include": ["a"], "exclude": ["b"]}}, "namespaces: include and exclude cannot both be set"),
        ({"priorityThreshold": {}}, "priorityThreshold: either value or name must be set, not both"),
        ({"labelSelector": {"matchLabel": {}}}, "labelSelector.matchLabel: unknown field"),
        ({"nodeSelector": "a in"}, "nodeSelector: label selector 'a in': found the end, expected '('"),
        ({"skipEvictionGates": ["PVC", "All"]}, "skipEvictionGates[1]: 'All' is not one of MaxUnavailablePerWorkload"),
        ({"objectLimiters": {"node": {}}}, "objectLimiters.node: 'node' is not one of workload, namespace"),
        (
            {"objectLimiters": {"namespace": {"duration": "5m", "maxMigrating": "10%"}}},
            "objectLimiters.namespace.maxMigrating: a number is needed",
        ),
        ({"finishedJobTTL": "1m"}, "finishedJobTTL: 1m is shorter than objectLimiters.workload.duration, 5m"),
        ({"arbitrationArgs": {"enabled": False}}, "arbitrationArgs.enabled: arbitration cannot be left out"),
        ({"nodeFit": True, "defaultJobMode": "EvictDirectly"}, "nodeFit: needs defaultJobMode ReservationFirst"),
        ({"defaultDeleteOptions": {"preconditions": {}}}, "defaultDeleteOptions.preconditions: unknown field"),
        ({"minReplicas": -1}, "minReplicas: must be at least 0, is -1"),
        ({"maxMigratingGlobally": -1}, "maxMigratingGlobally: must be at least 0, is -1"),
        ({"maxMigratingPerNamespace": -1}, "maxMigratingPerNamespace: must be at least 0, is -1"),
        (
            {"defaultDeleteOptions": {"gracePeriodSeconds": -1}},
            "defaultDeleteOptions.gracePeriodSeconds: must be at least 0, is -1",
        ),
        (
            {"defaultDeleteOptions": {"propagationPolicy": "Now"}},
            "defaultDeleteOptions.propagationPolicy: 'Now' is not one of Foreground, Background, Orphan",
        ),
        ({"waitingTTL": "-1s"}, "waitingTTL: must not be negative, is -1s"),
        ({"finishedJobTTL": "-1s"}, "finishedJobTTL: must not be negative, is -1s"),
        ({"arbitrationArgs": {"interval": "-1s"}}, "arbitrationArgs.interval: must not be negative, is -1s"),
        (
            {"objectLimiters": {"workload": {"duration": "-1s"}}},
            "objectLimiters.workload.duration: must not be negative, is -1s",
        ),
        (
            {"objectLimiters": {"workload": {"maxMigrating": "ten"}}},
            "objectLimiters.workload.maxMigrating: expected a number or a percentage",
        ),
        ({"evictQPS": "inf"}, "evictQPS: expected a number above 0, got 'inf'"),
        ({"evictQPS": "nan"}, "evictQPS: expected a number above 0, got 'nan'"),
        (
            {"priorityThreshold": {"value": 1, "name": "mid"}},
            "priorityThreshold: either value or name must be set, not both",
        ),
        ({"schedulerNames": ["a", ""]}, "schedulerNames[1]: must not be empty"),
        ({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "labelSelector: "),
    ],
)
def test_an_invalid_argument_is_reported_with_its_path(section: dict[str, Any], problem: str) -> None:
    with pytest.raises(WireError) as told:
        read(**section)
    assert str(told.value).startswith(f"migration: {problem}")


def test_all_invalid_arguments_are_reported_together() -> None:
    with pytest.raises(WireError) as told:
        read(dryrun=True, labelSelector={"x": 1}, maxMigratingPerNode="two", evictQPS="-1", defaultJobMode="Now")
    paths = [problem.path for problem in told.value.problems]
    assert paths == ["labelSelector.x", "maxMigratingPerNode", "dryrun", "defaultJobMode", "evictQPS"]


SKIPPED: dict[str, tuple[str, Any]] = {
    "MaxUnavailablePerWorkload": ("limits.check_unavailable", False),
    "MaxMigratingPerWorkload": ("limits.check_per_workload", False),
    "MaxMigratingPerNode": ("limits.per_node", None),
    "MaxMigratingPerNamespace": ("limits.per_namespace", None),
    "MaxMigratingGlobally": ("limits.globally", None),
    "ExpectedReplicas": ("limits.refuse_small_workloads", False),
    "PVC": ("protections.ignore_pvc_pods", False),
    "BarePods": ("protections.evict_all_bare_pods", True),
    "LocalStorage": ("protections.evict_local_storage_pods", True),
    "SystemCritical": ("protections.evict_system_critical_pods", True),
    "PriorityThreshold": ("protections.priority_threshold", None),
    "LabelSelector": ("protections.selector", Protections().selector),
    "Namespaces": ("protections.include_namespaces", frozenset()),
    "NodeFit": ("requires_reservation", False),
}
CAREFUL = EVERYTHING | dict.fromkeys(("evictAllBarePods", "evictLocalStoragePods", "evictSystemCriticalPods"), False)


@pytest.mark.parametrize("gate", GATES)
def test_each_eviction_gate_skips_its_check_and_no_other(gate: str) -> None:
    usual, found = read(**CAREFUL), read(**CAREFUL, skipEvictionGates=[gate])
    changed = {path for path, _ in SKIPPED.values() if at(found, path) != at(usual, path)}
    path, value = SKIPPED[gate]
    assert (changed, at(found, path)) == ({path}, value)


def test_all_eviction_gates_together_skip_all_checks() -> None:
    found = read(**CAREFUL, skipEvictionGates=list(GATES))
    assert {gate: at(found, path) for gate, (path, _) in SKIPPED.items()} == {
        gate: value for gate, (_, value) in SKIPPED.items()
    }
