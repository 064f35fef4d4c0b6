"""DaemonSets: one pod on every node that fits, tied to it by node affinity and then scheduled like any other.

Two rules, so that a change at one node costs the same in a small cluster and in a large one: `DaemonPods` looks at one
node and all sets, `DaemonSets` counts and rolls updates out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from restow.client.cache import Change
from restow.model.affinity import node_constraint
from restow.model.int_or_percent import scaled_int_or_percent
from restow.model.kinds import NODE, POD, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Document, Node, Pod, PodSpec
from restow.model.pods import controller_of, is_finished, is_ready
from restow.model.taints import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NO_EXECUTE,
    NO_SCHEDULE,
    NOT_READY,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
    untolerated_taint,
)
from restow.sim.world.pods import available_in
from restow.sim.world.raw_objects import CONTROLLER_REVISION, DAEMON_SET, RawObject
from restow.sim.world.revisions import revision_of, update_revisions
from restow.sim.world.rule import Rule, none_if_zero, owner_keys, reference_to, shortest_wait, write_status
from restow.sim.world.step import NOTHING, Create, Delete, Step, Write
from restow.sim.world.template import REVISION_HASH, pod_from, random_suffix, revision_name
from restow.sim.world.view import View, daemon_creator, pinned_node

_TOLERATED = (
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_EXECUTE),
    (DISK_PRESSURE, NO_SCHEDULE),
    (MEMORY_PRESSURE, NO_SCHEDULE),
    (PID_PRESSURE, NO_SCHEDULE),
    (UNSCHEDULABLE.key, NO_SCHEDULE),
)


class DaemonPods(Rule):
    """Per node: the pods that should be there, and no others."""

    kind = NODE
    also = (DAEMON_SET, POD)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        if kind == DAEMON_SET:
            same = change.old is not None and change.old.metadata.generation == change.object.metadata.generation
            return () if same else [key_of(node) for node in view.all(NODE)]
        owner = controller_of(change.object)
        if owner is None or owner.kind != DAEMON_SET.kind:
            return ()
        node = pinned_node(change.object)
        return (("", node),) if node else ()

    def decide(self, key: Key, view: View) -> Step:
        node = view.node(key[1])
        if node is None:
            return NOTHING
        sets = sorted(view.all(DAEMON_SET), key=key_of)
        steps = [_on_node(each, node, view) for each in sets if not view.is_leaving(each)]
        return Step(
            tuple(write for step in steps for write in step.writes), shortest_wait(step.again for step in steps)
        )


def _on_node(daemons: RawObject, node: Node, view: View) -> Step:
    runs, stays = should_run(daemons, node)
    pods = [pod for pod in view.daemons(daemons.metadata.uid, node.metadata.name) if not view.is_leaving(pod)]
    failed = [pod for pod in pods if is_finished(pod)]
    alive = sorted((pod for pod in pods if not is_finished(pod)), key=_age)
    surplus = alive[1:] if stays else alive
    writes: list[Write] = [Delete.of(POD, pod) for pod in (*failed, *surplus)]
    if not runs or view.daemons(daemons.metadata.uid, node.metadata.name):
        return Step(tuple(writes))
    pause = view.creation_pause(daemon_creator(daemons.metadata.uid, node.metadata.name))
    return Step(again=pause) if pause else Step((Create(POD, _pod(daemons, node, view)),))


def should_run(daemons: RawObject, node: Node) -> tuple[bool, bool]:
    """(a new pod should run there, an existing one may stay there)."""
    spec = _template_spec(daemons)
    if spec.node_name and spec.node_name != node.metadata.name:
        return False, False
    if not node_constraint(spec).matches(node.metadata.name, node.metadata.labels):
        return False, False
    taints = node.spec.taints
    return not untolerated_taint(taints, spec.tolerations), not untolerated_taint(
        taints, spec.tolerations, (NO_EXECUTE,)
    )


def _template_spec(daemons: RawObject) -> PodSpec:
    spec: Document = (daemons.spec.get("template") or {}).get("spec") or {}
    return msgspec.convert(_with_daemon_tolerations(spec), PodSpec)


def _with_daemon_tolerations(spec: Document) -> Document:
    """The spec with the tolerations that every daemon gets."""
    wanted = [
        *_TOLERATED,
        *([(NETWORK_UNAVAILABLE, NO_SCHEDULE)] if spec.get("hostNetwork") else []),
    ]
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted]
    present = [each for each in spec.get("tolerations") or () if each not in added]
    return {**spec, "tolerations": [*present, *added]}


def pin_to_node(affinity: Document | None, node: str) -> Document:
    """The affinity with every alternative narrowed to one node, by name."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    of_nodes: Document = (affinity or {}).get("nodeAffinity") or {}
    required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    # Upstream drops the template's own terms: the controller has checked them already.
    terms = {**required, "nodeSelectorTerms": [{"matchFields": [field]}]}
    return {
        **(affinity or {}),
        "nodeAffinity": {**of_nodes, "requiredDuringSchedulingIgnoredDuringExecution": terms},
    }


def _pod(daemons: RawObject, node: Node, view: View) -> Document:
    meta = daemons.metadata
    template = daemons.spec.get("template") or {}
    name = f"{meta.name}-{random_suffix(view.rng)}"
    pod = pod_from(template, meta.namespace or "", name, reference_to(DAEMON_SET, daemons))
    pod["spec"] = _with_daemon_tolerations(pod["spec"])
    pod["spec"]["affinity"] = pin_to_node(pod["spec"].get("affinity"), node.metadata.name)
    pod["metadata"].setdefault("labels", {})[REVISION_HASH] = revision_name(meta.name, template)
    return pod


class DaemonSets(Rule):
    """Per set: its revisions, its status, and updates rolled out a few nodes at a time."""

    kind = DAEMON_SET
    also = (POD, NODE, CONTROLLER_REVISION)
    settle = 0.1

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        if kind == POD:
            return owner_keys(DAEMON_SET, change, view)
        if kind == CONTROLLER_REVISION:
            return ()
        old = change.old
        same = old is not None and (old.spec, old.metadata.labels) == (
            change.object.spec,
            change.object.metadata.labels,
        )
        return () if same else [key_of(daemons) for daemons in view.all(DAEMON_SET)]

    def decide(self, key: Key, view: View) -> Step:
        daemons = view.get(DAEMON_SET, key)
        if daemons is None or view.is_leaving(daemons):
            return NOTHING
        revision = revision_name(daemons.metadata.name, daemons.spec.get("template") or {})
        min_ready = float(daemons.spec.get("minReadySeconds") or 0)
        pods = [pod for pod in view.owned(POD, daemons.metadata.uid) if not view.is_leaving(pod)]
        on_nodes = {name: pod for pod in pods if (name := pinned_node(pod)) and not is_finished(pod)}
        wanted = [node.metadata.name for node in view.all(NODE) if should_run(daemons, node)[0]]
        waits = {name: available_in(pod, min_ready, view.now) for name, pod in on_nodes.items()}
        available = sum(1 for name in wanted if waits.get(name) == 0)
        counts = {
            "desiredNumberScheduled": len(wanted),
            "currentNumberScheduled": sum(1 for name in wanted if name in on_nodes),
            "numberMisscheduled": len(on_nodes.keys() - set(wanted)),
            "numberReady": sum(1 for name in wanted if name in on_nodes and is_ready(on_nodes[name])),
            "numberAvailable": none_if_zero(available),
            "numberUnavailable": none_if_zero(len(wanted) - available),
            "updatedNumberScheduled": none_if_zero(
                sum(1 for name in wanted if name in on_nodes and revision_of(on_nodes[name]) == revision)
            ),
            "observedGeneration": daemons.metadata.generation,
        }
        outdated = [
            on_nodes[name] for name in sorted(wanted) if name in on_nodes and revision_of(on_nodes[name]) != revision
        ]
        rolled = _replace_outdated(daemons, outdated, len(wanted), len(wanted) - available, view)
        revisions = update_revisions(DAEMON_SET, daemons, revision, set(map(revision_of, pods)), view)
        again = shortest_wait(waits.values())
        return Step((*revisions, *rolled, *write_status(DAEMON_SET, daemons, counts)), again)


def _replace_outdated(
    daemons: RawObject, outdated: list[Pod], wanted: int, unavailable: int, view: View
) -> list[Write]:
    """Delete outdated pods: those that do not serve anyway, and as many others as may be missing at a time."""
    strategy = daemons.spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
    budget = max(1, scaled_int_or_percent(limit, wanted, up=True)) - unavailable
    idle = [pod for pod in outdated if not is_ready(pod)]
    serving = [pod for pod in outdated if is_ready(pod)]
    return [Delete.of(POD, pod) for pod in (*idle, *serving[: max(0, budget)])]


def _age(pod: Pod) -> tuple[bool, str, str]:
    """Bound first, then oldest."""
    return (not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name)
