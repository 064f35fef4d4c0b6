"""Answers from a snapshot file, without a cluster: where pending pods would go, and why one pod is where it is.

Goes in: an `Inventory`, a scheduler's profile and the time. Comes out: values that print as a table or as JSON. The
scheduler is the very one that runs against a cluster; only nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from restow.model.cluster import Snapshot
from restow.model.inventory import Inventory
from restow.model.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    REPLICA_SET,
    RESERVATION,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Kind,
)
from restow.model.objects import Pod
from restow.scheduling.decisions import Assign, Refuse
from restow.scheduling.engine import Survey
from restow.scheduling.framework import Code, Cycle
from restow.scheduling.jobs import Roster
from restow.scheduling.registry import Profile
from restow.scheduling.session import Session

OWNERS: Sequence[Kind[Any]] = (REPLICA_SET, DEPLOYMENT, STATEFUL_SET, DAEMON_SET, JOB)
STORAGE: Sequence[Kind[Any]] = (
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
)
DEFAULT_SCHEDULER = "default-scheduler"


class Seated(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    node: str


class Refused(msgspec.Struct, frozen=True):
    namespace: str
    pod: str
    message: str


class Schedule(msgspec.Struct, frozen=True):
    """Where the pending pods would go. Pods of other schedulers are one refusal, counted."""

    placements: list[Seated]
    unschedulable: list[Refused]


class Why(msgspec.Struct, frozen=True):
    """A reason, whose it is, and the nodes it keeps the pod from."""

    plugin: str
    reason: str
    nodes: list[str]


class Explanation(msgspec.Struct, frozen=True):
    """One pod: where it is, where else it could go, and what keeps it from the other nodes."""

    namespace: str
    pod: str
    node: str | None
    message: str
    feasible: list[str]
    refusals: list[Why]


class Cluster:
    """The snapshot of an inventory, and what scheduling keeps beside it."""

    def __init__(self, inventory: Inventory) -> None:
        self.pods = [_identified(pod) for pod in inventory.of(POD)]
        self.snapshot = snapshot = Snapshot()
        self.roster = roster = Roster()
        for kind in OWNERS:
            for owner in inventory.of(kind):
                snapshot.apply_owner(owner.metadata)
        for kind in STORAGE:
            for item in inventory.of(kind):
                snapshot.apply_storage(item)
        for namespace in inventory.of(NAMESPACE):
            snapshot.apply_namespace(namespace)
        for node in inventory.of(NODE):
            snapshot.apply_node(node)
        for priority in inventory.of(PRIORITY_CLASS):
            roster.apply_priority_class(priority)
        for queue in inventory.of(QUEUE):
            roster.apply_queue(queue)
        for group in inventory.of(POD_GROUP):
            snapshot.apply_group(group)
            roster.apply_group(group)
        for pod in self.pods:
            snapshot.apply_pod(pod)
            roster.apply_pod(pod)
        for reservation in inventory.of(RESERVATION):
            snapshot.apply_reservation(reservation)

    def pending(self) -> list[Pod]:
        """Pods without a node that have not ended and are not being deleted."""
        return [
            pod
            for pod in self.pods
            if not pod.spec.node_name
            and pod.status.phase in (None, "", "Pending")
            and pod.metadata.deletion_timestamp is None
        ]


def schedule(cluster: Cluster, profile: Profile, now: float) -> Schedule:
    """One session over all pending pods."""
    pending = cluster.pending()
    ours = [pod for pod in pending if (pod.spec.scheduler_name or DEFAULT_SCHEDULER) in profile.scheduler_names]
    gated = {pod.metadata.uid: reason for pod in ours if (reason := _gate(pod, profile))}
    refused = [Refused(*_name(pod), gated[pod.metadata.uid]) for pod in ours if pod.metadata.uid in gated]
    placements: list[Seated] = []
    free = [pod for pod in ours if pod.metadata.uid not in gated]
    session = Session(cluster.snapshot, profile.engine, cluster.roster, now=now, pods=free)
    for decision in session.run(profile.actions):
        if isinstance(decision, Assign):
            placements.append(Seated(*_name(decision.pod), decision.node))
        elif isinstance(decision, Refuse):
            refused.append(Refused(*_name(decision.pod), decision.message))
    refused.sort(key=lambda one: (one.namespace, one.pod))
    placements.sort(key=lambda one: (one.namespace, one.pod))
    return Schedule(placements, refused + _foreign(len(pending) - len(ours), profile))


def explain(cluster: Cluster, profile: Profile, pod: Pod, now: float) -> Explanation:
    """What every node says to this pod; a pod that is placed is taken off its node for the question."""
    snapshot = cluster.snapshot
    mark = snapshot.mark()
    if pod.spec.node_name:
        snapshot.remove_pod(pod)
    loose = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=None))
    survey = profile.engine.survey(Cycle(loose, snapshot, now))
    refused = _by_reason(survey, snapshot)
    snapshot.undo_to(mark)
    node = pod.spec.node_name or None
    return Explanation(*_name(pod), node, _summary(pod, survey, profile), list(survey.feasible), refused)


def _by_reason(survey: Survey, snapshot: Snapshot) -> list[Why]:
    nodes: dict[tuple[str, str], set[str]] = {}
    for plugin, refusals in survey.refusals.items():
        for one in refusals:
            names = (snapshot.rows.name(row) or "" for row in one.rows.nonzero()[0].tolist())
            nodes.setdefault((plugin, one.reason), set()).update(names)
    return [Why(plugin, reason, sorted(names)) for (plugin, reason), names in nodes.items()]


def _gate(pod: Pod, profile: Profile) -> str:
    """Why a pod may not be tried yet, if so."""
    verdicts = [gate.pre_enqueue(pod) for gate in profile.gates]
    return next((", ".join(verdict.reasons) for verdict in verdicts if verdict.code is not Code.SUCCESS), "")


def _summary(pod: Pod, survey: Survey, profile: Profile) -> str:
    name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
    foreign = "" if name in profile.scheduler_names else f"; it belongs to the scheduler {name!r}"
    if pod.spec.node_name:
        others = sum(one != pod.spec.node_name for one in survey.feasible)
        return f"runs on {pod.spec.node_name}; {others} other nodes could take it{foreign}"
    if survey.feasible:
        return f"is pending; {len(survey.feasible)} nodes could take it{foreign}"
    return f"is pending; {survey.message}{foreign}"


def _foreign(count: int, profile: Profile) -> list[Refused]:
    if not count:
        return []
    names = ", ".join(sorted(profile.scheduler_names))
    advice = "list its name under scheduler.schedulerNames in --config to include them"
    return [Refused("", "", f"{count} pending pods belong to schedulers other than {names}: {advice}")]


def _name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace or "default", pod.metadata.name


def _identified(pod: Pod) -> Pod:
    """Files written by hand have no uids; inside one file the name is as good."""
    if pod.metadata.uid:
        return pod
    metadata = msgspec.structs.replace(pod.metadata, uid=f"{pod.metadata.namespace or ''}/{pod.metadata.name}")
    return msgspec.structs.replace(pod, metadata=metadata)
