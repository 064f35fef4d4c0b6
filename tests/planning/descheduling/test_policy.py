"""The `descheduler` section: what is read, and every mistake at once with its path."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from restow.model.wire import WireError
from restow.planning.descheduling.framework import Planner, Remover
from restow.planning.descheduling.policy_section import read_policy
from tests.planning.descheduling.plugin_requests import PLUGINS

UPSTREAM = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictTotal: 20
evictionFailureEventNotification: true
metricsCollector: {enabled: true}
profiles:
- name: keep-order
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true, minReplicas: 2, podProtections: {extraEnabled: [PodsWithPVC]}}
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 86400, namespaces: {include: [dev]}}
  plugins:
    deschedule: {enabled: [PodLifeTime, RemovePodsViolatingNodeTaints]}
    balance: {enabled: [RemoveDuplicates]}
"""


EXAMPLES = {
    "RemoveDuplicates": ("balance", {"excludeOwnerKinds": ["ReplicaSet"], "namespaces": {"exclude": ["a"]}}),
    "RemovePodsViolatingInterPodAntiAffinity": ("deschedule", None),
    "RemovePodsViolatingNodeAffinity": (
        "deschedule",
        {"nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]},
    ),
    "RemovePodsViolatingNodeTaints": ("deschedule", {"excludedTaints": ["dedicated=special-user", "reserved"]}),
    "RemovePodsViolatingTopologySpreadConstraint": (
        "balance",
        {"constraints": ["DoNotSchedule", "ScheduleAnyway"], "topologyBalanceNodeFit": True},
    ),
    "RemovePodsHavingTooManyRestarts": (
        "deschedule",
        {"podRestartThreshold": 100, "includingInitContainers": True, "states": ["CrashLoopBackOff"]},
    ),
    "PodLifeTime": ("deschedule", {"maxPodLifeTimeSeconds": 86400, "states": ["Pending", "PodInitializing"]}),
    "RemoveFailedPods": (
        "deschedule",
        {
            "reasons": ["NodeAffinity"],
            "exitCodes": [1],
            "includingInitContainers": True,
            "excludeOwnerKinds": ["Job"],
            "minPodLifetimeSeconds": 3600,
        },
    ),
}
"""How people of the upstream descheduler configure its plugins."""


PROMETHEUS: dict[str, Any] = {"source": "Prometheus", "prometheus": {"url": "http://p:9090"}}
SECRET = {"secretReference": {"namespace": "kube-system", "name": "token"}}
ASKING = {"metricsUtilization": {"source": "Prometheus"}}
CLASSES = {"podProtections": {"config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}}}}
EMPTY = {"metricsUtilization": {"source": "Prometheus", "prometheus": {"nodes": {"cpu": ""}}}}


def test_upstream_policy_is_read_as_it_is() -> None:
    policy = read_policy(yaml.safe_load(UPSTREAM), PLUGINS)
    [profile] = policy.profiles
    named = [one.name for one in profile.planners]
    assert named == ["PodLifeTime", "RemovePodsViolatingNodeTaints", "RemoveDuplicates"]
    assert profile.limits.total == 20 and len(profile.guards) == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_upstream_plugin_arguments_are_read_as_they_are(name: str) -> None:
    point, arguments = EXAMPLES[name]
    config = {"name": name} if arguments is None else {"name": name, "args": arguments}
    written = {"profiles": [{"name": "p", "pluginConfig": [config], "plugins": {point: {"enabled": [name]}}}]}
    [profile] = read_policy(written, PLUGINS).profiles
    enabled: list[Planner | Remover] = [*profile.planners, *profile.removers]
    assert [one.name for one in enabled] == [name]


def test_policy_without_profiles_has_a_default_profile_without_trigger() -> None:
    [profile] = read_policy({}, PLUGINS).profiles
    assert (profile.name, profile.interval, profile.schedule) == ("default", None, None)
    assert [one.name for one in profile.planners] == ["Defragmentation"]


def test_profile_has_interval_cron_and_time_zone() -> None:
    written = {"profiles": [{"name": "a", "interval": "5m", "cron": "@daily"}, {"name": "b", "cron": "@daily"}]}
    first, second = read_policy(written, PLUGINS).profiles
    assert (first.interval, second.interval) == (300.0, None) and second.schedule is not None


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"profile": []}, "profile: unknown field"),
        ({"apiVersion": "descheduler/v1alpha1"}, "apiVersion: expected descheduler/v1alpha2"),
        ({"profiles": []}, "profiles: at least one is needed"),
        ({"profiles": [{"name": "a"}, {"name": "a"}]}, "profiles[1].name: another profile is called 'a', too"),
        ({"profiles": [{"name": "a", "interval": "0s"}]}, "profiles[0].interval: must be at least 1s, is 0s"),
        ({"profiles": [{"name": "a", "interval": "1ns"}]}, "profiles[0].interval: must be at least 1s, is 1ns"),
        ({"profiles": [{"name": "a", "interval": "often"}]}, "profiles[0].interval: duration 'often'"),
        ({"profiles": [{"name": "a", "cron": "daily"}]}, "profiles[0].cron: schedule 'daily'"),
        ({"profiles": [{"name": "a", "cron": "0 3 30 2 *"}]}, "profiles[0].cron: no day matches"),
        (
            {"profiles": [{"name": "a", "interval": "1h", "cron": "* *", "timeZone": "x"}]},
            "profiles[0].cron: schedule '* *'",
        ),
        (
            {"profiles": [{"name": "a", "cron": "@daily", "timeZone": "Mars/Olympus"}]},
            "profiles[0].timeZone: time zone 'Mars/Olympus' is not known",
        ),
        ({"profiles": [{"name": "a", "timeZone": "UTC"}]}, "profiles[0].timeZone: has no effect without cron"),
        ({"maxNoOfPodsToEvictTotal": -1}, "maxNoOfPodsToEvictTotal: must not be negative, is -1"),
        ({"nodeSelector": "a b"}, "nodeSelector: "),
        ({"evictionFailureEventNotification": False}, "evictionFailureEventNotification: cannot be switched off"),
        (
            {"profiles": [{"name": "a", "plugins": {"balance": {"enabled": ["Defrag"]}}}]},
            "profiles[0].plugins.balance.enabled[0]: no plugin is called 'Defrag'",
        ),
        (
            {"profiles": [{"name": "a", "plugins": {"balance": {"enabled": ["HighNodeUtilization"]}}}]},
            "profiles[0].plugins.balance.enabled[0]: HighNodeUtilization is not known here: Defragmentation empties",
        ),
        (
            {"profiles": [{"name": "a", "pluginConfig": [{"name": "LowNodeUtilization"}]}]},
            "profiles[0].pluginConfig[0].name: LowNodeUtilization is not known here: LoadAware relieves nodes",
        ),
        (
            {"profiles": [{"name": "a", "plugins": {"deschedule": {"enabled": ["Defragmentation"]}}}]},
            "profiles[0].plugins.deschedule.enabled[0]: Defragmentation belongs under balance",
        ),
        (
            {"profiles": [{"name": "a", "plugins": {"balance": {"enabled": ["DefaultEvictor"]}}}]},
            "profiles[0].plugins.balance.enabled[0]: DefaultEvictor is an evictor",
        ),
        (
            {"profiles": [{"name": "a", "plugins": {"sort": {"enabled": ["X"]}}}]},
            "profiles[0].plugins.sort: is not supported",
        ),
        (
            {"profiles": [{"name": "a", "pluginConfig": [{"name": "PodLifeTime", "args": {}}]}]},
            "profiles[0].pluginConfig[0].args.maxPodLifeTimeSeconds: a number above 0 is needed",
        ),
        (
            {"profiles": [{"name": "a", "pluginConfig": [{"name": "DefaultEvictor", "args": {"nodeFit": False}}]}]},
            "profiles[0].pluginConfig[0].args.nodeFit: cannot be switched off",
        ),
        (
            {
                "profiles": [
                    {"name": "a", "pluginConfig": [{"name": "DefaultEvictor", "args": {"nodeSelector": "a=b"}}]}
                ]
            },
            "profiles[0].pluginConfig[0].args.nodeSelector: targets are selected by the scheduler's filters",
        ),
        (
            {"profiles": [{"name": "a", "pluginConfig": [{"name": "DefaultEvictor", "args": CLASSES}]}]},
            "args.podProtections.config.PodsWithPVC: has no effect unless extraEnabled contains PodsWithPVC",
        ),
        ({"metricsProviders": [{"source": "Graphite"}]}, "metricsProviders[0].source: expected one of Kubernetes"),
        ({"metricsProviders": [PROMETHEUS, PROMETHEUS]}, "metricsProviders[1].source: Prometheus is listed twice"),
        (
            {"metricsProviders": [{"source": "KubernetesMetrics", "prometheus": {}}]},
            "metricsProviders[0].prometheus: belongs to the source Prometheus",
        ),
        (
            {"metricsProviders": [{"source": "Prometheus"}]},
            "metricsProviders[0].prometheus.url: expected http:// or https:// and a host, got ''",
        ),
        (
            {"metricsProviders": [{"source": "Prometheus", "prometheus": {"url": "http://p:x"}}]},
            "metricsProviders[0].prometheus.url: expected http",
        ),
        (
            {"metricsProviders": [PROMETHEUS | {"prometheus": {"url": "http://p", "authToken": {}}}]},
            "metricsProviders[0].prometheus.authToken.file: must name a file",
        ),
        (
            {"metricsProviders": [PROMETHEUS | {"prometheus": {"url": "http://p", "authToken": SECRET}}]},
            "metricsProviders[0].prometheus.authToken.secretReference: Secrets are not read here: mount the Secret",
        ),
        (
            {"profiles": [{"name": "a", "pluginConfig": [{"name": "LoadAware", "args": ASKING}]}]},
            "profiles[0].pluginConfig[0].args.metricsUtilization.source: metricsProviders lists no Prometheus",
        ),
        (
            {"profiles": [{"name": "a", "pluginConfig": [{"name": "LoadAware", "args": EMPTY}]}]},
            "profiles[0].pluginConfig[0].args.metricsUtilization.prometheus.nodes.cpu: must not be empty",
        ),
        (
            {"profiles": [{"name": "a", "pluginConfig": [{"name": "Optimal", "args": {"objective": "slots"}}]}]},
            "profiles[0].pluginConfig[0].args.shape: the objective slots needs one",
        ),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_policy_problem_has_its_path(section: dict[str, Any], told: str) -> None:
    with pytest.raises(WireError) as error:
        read_policy(section, PLUGINS)
    assert told in str(error.value)


def test_all_policy_problems_are_reported_at_once() -> None:
    evictor = {"name": "DefaultEvictor", "args": {"minReplicas": -1, "noEvictionPolicy": "Never"}}
    written = {"gracePeriodSeconds": -1, "profiles": [{"name": "", "cron": "x", "pluginConfig": [evictor]}]}
    with pytest.raises(WireError) as error:
        read_policy(written, PLUGINS)
    assert len(error.value.problems) == 5, error.value


@pytest.mark.parametrize(
    ("plugin", "args", "paths"),
    [
        pytest.param(
            "Defragmentation",
            {"lowThresholds": {"cpu": "x", "memory": 300}, "numberOfNodes": -1, "coolDownTime": "soon", "speed": 1},
            ["coolDownTime", "lowThresholds.cpu", "numberOfNodes", "speed"],
            id="Defragmentation",
        ),
        pytest.param(
            "Defragmentation",
            {"lowThresholds": {"cpu": 80}, "defragmentThresholds": {"cpu": "x"}, "coolDownTime": -1},
            ["coolDownTime", "defragmentThresholds.cpu"],
            id="what cannot be read crosses nothing",
        ),
        pytest.param(
            "Defragmentation",
            {"resourceType": "cpu", "ResourceType": "cpu", "coolDownTime": -1},
            ["ResourceType", "coolDownTime"],
            id="two spellings hide nothing else",
        ),
        pytest.param(
            "NodeResourceBalance",
            {"resources": ["cpu", 7], "maxThreshold": 15, "evictableNamespaces": {"include": ["a"], "exclude": ["b"]}},
            ["evictableNamespaces", "maxThreshold", "resources[1]"],
            id="NodeResourceBalance",
        ),
        pytest.param(
            "LoadAware",
            {"thresholds": {"cpu": "x"}, "numberOfNodes": -1, "maxAge": "long", "metricsUtilization": {"source": "X"}},
            ["maxAge", "metricsUtilization.source", "numberOfNodes", "thresholds.cpu"],
            id="LoadAware",
        ),
        pytest.param(
            "Optimal",
            {"maxMoves": "many", "seed": -1, "objective": "slots", "shape": {"cpu": "0"}},
            ["maxMoves", "seed", "shape.cpu"],
            id="Optimal",
        ),
        pytest.param(
            "PodLifeTime",
            {"maxPodLifeTimeSeconds": "old", "namespaces": {"include": ["a"], "exclude": ["b"]}},
            ["maxPodLifeTimeSeconds", "namespaces"],
            id="PodLifeTime",
        ),
        pytest.param(
            "DefaultEvictor",
            {"minReplicas": "two", "nodeFit": False, "minPodAge": "old", "noEvictionPolicy": "Never"},
            ["minPodAge", "minReplicas", "noEvictionPolicy", "nodeFit"],
            id="DefaultEvictor",
        ),
    ],
)
def test_wrong_types_do_not_hide_wrong_values(plugin: str, args: dict[str, Any], paths: list[str]) -> None:
    with pytest.raises(WireError) as error:
        read_policy({"profiles": [{"name": "a", "pluginConfig": [{"name": plugin, "args": args}]}]}, PLUGINS)
    found = sorted(one.path.removeprefix("profiles[0].pluginConfig[0].args.") for one in error.value.problems)
    assert found == paths, error.value


def test_profile_without_load_aware_measures_usage_as_other_profiles_do() -> None:
    cool = {
        "name": "cool",
        "plugins": {"balance": {"enabled": ["LoadAware"]}},
        "pluginConfig": [{"name": "LoadAware", "args": {**ASKING, "maxAge": "1m"}}],
    }
    pack = {"name": "pack", "plugins": {"balance": {"enabled": ["Defragmentation"]}}}
    policy = read_policy({"metricsProviders": [PROMETHEUS], "profiles": [pack, cool]}, PLUGINS)
    metering = policy.usage_source_for(policy.profile_called("pack"))
    assert metering is not None and metering.queries is not None and metering.max_age == 60
    assert len(policy.peers.defragmentation) == len(policy.peers.load_aware) == 1
    alone = read_policy({"profiles": [pack]}, PLUGINS)
    assert alone.usage_source_for(alone.profile_called("pack")) is None
