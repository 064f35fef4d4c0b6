"""The rules of an ordinary cluster: everything but a scheduler."""

from __future__ import annotations

from restow.sim.world.budget import Budgets
from restow.sim.world.cron_job import CronJobs
from restow.sim.world.daemon_set import DaemonPods, DaemonSets
from restow.sim.world.deployment import Deployments
from restow.sim.world.instructions import NodeAnnotationWarnings, PodAnnotationWarnings
from restow.sim.world.job import Jobs
from restow.sim.world.kubelet import Kubelets
from restow.sim.world.node import Heartbeats, Nodes
from restow.sim.world.pod_garbage_collector import PodGarbageCollector
from restow.sim.world.replica_set import ReplicaSets
from restow.sim.world.rule import Rule
from restow.sim.world.settings import Settings
from restow.sim.world.stateful_set import StatefulSets
from restow.sim.world.taint_eviction import TaintEviction
from restow.sim.world.volume_protection import ClaimProtection, VolumeProtection
from restow.sim.world.volumes import Claims, Volumes


def default_rules(settings: Settings) -> list[Rule]:
    rules: list[Rule] = [
        Kubelets(settings),
        Nodes(settings),
        TaintEviction(),
        PodGarbageCollector(settings),
        ReplicaSets(),
        Deployments(),
        StatefulSets(),
        Jobs(),
        CronJobs(),
        DaemonPods(),
        DaemonSets(),
        Budgets(),
        Claims(settings),
        Volumes(),
        PodAnnotationWarnings(),
        NodeAnnotationWarnings(),
    ]
    if settings.protect_volumes:
        rules += (ClaimProtection(), VolumeProtection())
    if settings.heartbeat is not None:
        rules.append(Heartbeats(settings.heartbeat))
    return rules
