from __future__ import annotations

from typing import Any

import pytest

from restow.migration.arguments import Arguments, read_arguments
from restow.migration.limits import Limits, Window
from restow.model.wire import WireError

OURS = frozenset({"restow"})


def read(**section: Any) -> Arguments:
    return read_arguments(section, OURS)


def test_the_defaults() -> None:
    arguments = read()
    assert arguments.limits == Limits(per_node=2, workload_window=Window(300.0))
    assert arguments.protections.scheduler_names == OURS
    assert (arguments.default_mode, arguments.default_ttl, arguments.policy) == ("ReservationFirst", 300.0, "Eviction")
    assert (arguments.evictions_per_second, arguments.eviction_burst, arguments.workers) == (10.0, 1, 1)
    assert not arguments.dry_run and arguments.enabled


def test_koordinators_own_file_is_read() -> None:
    arguments = read(
        apiVersion="descheduler/v1alpha2",
        kind="MigrationControllerArgs",
        dryRun=False,
        maxConcurrentReconciles=3,
        evictFailedBarePods=False,
        evictLocalStoragePods=True,
        evictSystemCriticalPods=False,
        ignorePvcPods=False,
        labelSelector={"matchLabels": {"app": "web"}},
        namespaces={"exclude": ["kube-system"]},
        maxMigratingPerNode=3,
        maxMigratingPerNamespace=5,
        maxMigratingPerWorkload="20%",
        maxUnavailablePerWorkload=2,
        objectLimiters={"workload": {"duration": "10m", "maxMigrating": 1}},
        defaultJobMode="EvictDirectly",
        defaultJobTTL="3m",
        evictQPS="2.5",
        evictBurst=5,
        evictionPolicy="Delete",
        defaultDeleteOptions={"gracePeriodSeconds": 10},
        arbitrationArgs={"enabled": True, "interval": "1s"},
    )
    assert (arguments.limits.per_node, arguments.limits.migrating, arguments.limits.unavailable) == (3, "20%", 2)
    assert arguments.limits.workload_window == Window(600.0, 1)
    assert (arguments.evictions_per_second, arguments.grace_seconds, arguments.interval) == (2.5, 10, 1.0)
    assert str(arguments.protections.selector) == "app=web"


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
    ],
)
def test_a_mistake_is_told_with_its_path(section: dict[str, Any], problem: str) -> None:
    with pytest.raises(WireError) as told:
        read(**section)
    assert str(told.value).startswith(f"migration: {problem}")


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(WireError) as told:
        read(dryrun=True, labelSelector={"x": 1}, maxMigratingPerNode="two", evictQPS="-1", defaultJobMode="Now")
    paths = [problem.path for problem in told.value.problems]
    assert paths == ["labelSelector.x", "maxMigratingPerNode", "dryrun", "defaultJobMode", "evictQPS"]


def test_gates_that_are_skipped() -> None:
    arguments = read(
        skipEvictionGates=["MaxMigratingPerNode", "LocalStorage", "Namespaces", "MaxUnavailablePerWorkload"],
        namespaces={"include": ["shop"]},
    )
    assert arguments.limits.per_node is None
    assert arguments.protections.evict_local_storage_pods and not arguments.protections.include
    assert arguments.limits.check_migrating and not arguments.limits.check_unavailable


def test_a_window_without_length_limits_nothing() -> None:
    assert read(objectLimiters={"workload": {"duration": "0s"}}).limits.workload_window is None
