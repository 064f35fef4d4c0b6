"""PodDisruptionBudgets: how many pods are expected, how many are healthy, and so how many may be disrupted.

The eviction API lowers disruptionsAllowed and notes the pod in disruptedPods; this rule raises it again when pods are
healthy, and forgets notes of pods that have gone, or that after two minutes have not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.client.cache import Change
from restow.model.int_or_percent import scaled_int_or_percent
from restow.model.kinds import POD, Kind
from restow.model.object_key import Key, key_of
from restow.model.objects import Document, Pod
from restow.model.pods import controller_of, is_ready
from restow.model.selectors import LabelSelector, SelectorError, label_selector
from restow.model.times import format_time, parse_time
from restow.sim.world.raw_objects import BUDGET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, RawObject
from restow.sim.world.rule import Rule
from restow.sim.world.step import NOTHING, Patch, Step
from restow.sim.world.view import View

FORGET_AFTER = 120.0


class Budgets(Rule):
    kind = BUDGET
    also = (POD, REPLICA_SET, DEPLOYMENT, STATEFUL_SET)

    def keys(self, kind: Kind[Any], change: Change[Any], view: View) -> Iterable[Key]:
        budgets = view.inside(BUDGET, change.object.metadata.namespace or "")
        if not budgets or not _affects_budgets(kind, change):
            return ()
        if kind != POD:
            return [key_of(budget) for budget in budgets]
        seen = [item.metadata.labels for item in (change.object, change.old) if item is not None]
        return [
            key_of(budget)
            for budget in budgets
            if (selector := _selector(budget)) and any(selector.matches(labels) for labels in seen)
        ]

    def decide(self, key: Key, view: View) -> Step:
        budget = view.get(BUDGET, key)
        if budget is None or view.is_leaving(budget):
            return NOTHING
        selector = _selector(budget)
        equal = (budget.spec.get("selector") or {}).get("matchLabels") or {}
        pods = view.pods_selected(key[0], selector, equal) if selector else []
        disrupted, again = _still_disrupted(budget, pods, view)
        healthy = sum(
            1 for pod in pods if is_ready(pod) and not view.is_leaving(pod) and pod.metadata.name not in disrupted
        )
        try:
            expected, desired = _expected_and_desired(budget.spec, pods, view)
        except _NoScale as reason:
            return _write(budget, _no_disruptions_status(budget, str(reason), view.now), again)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        status = {
            "expectedPods": expected,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "disruptedPods": disrupted or None,
            "observedGeneration": budget.metadata.generation,
            "conditions": _conditions(
                budget, allowed > 0, "SufficientPods" if allowed else "InsufficientPods", "", view.now
            ),
        }
        return _write(budget, status, again)


class _NoScale(Exception):
    """A pod's controller does not say how many pods it wants."""


def _affects_budgets(kind: Kind[Any], change: Change[Any]) -> bool:
    if change.type != "MODIFIED" or change.old is None:
        return True
    new, old = change.object, change.old
    if kind != POD:
        return bool(new.spec.get("replicas") != old.spec.get("replicas"))
    return (
        is_ready(new) != is_ready(old)
        or new.metadata.deletion_timestamp != old.metadata.deletion_timestamp
        or new.metadata.labels != old.metadata.labels
    )


def _selector(budget: RawObject) -> LabelSelector | None:
    """No selector selects nothing, an empty one everything."""
    spec = budget.spec.get("selector")
    try:
        return label_selector(spec) if spec is not None else None
    except SelectorError:
        return None


def _still_disrupted(budget: RawObject, pods: list[Pod], view: View) -> tuple[Document, float | None]:
    # A pod in `disruptedPods` was evicted by the API but does not show it yet. It counts as unhealthy until it is seen
    # leaving, so that a second eviction cannot spend the same disruption.
    noted: Document = budget.status.get("disruptedPods") or {}
    staying = {pod.metadata.name for pod in pods if not view.is_leaving(pod)}
    waits = {name: parse_time(since) + FORGET_AFTER - view.now for name, since in noted.items() if name in staying}
    kept = {name: noted[name] for name, wait in sorted(waits.items()) if wait > 0}
    return kept, min((waits[name] for name in kept), default=None)


def _expected_and_desired(spec: Document, pods: list[Pod], view: View) -> tuple[int, int]:
    """(expected, desired healthy) pods."""
    least = spec.get("minAvailable")
    if isinstance(least, int):
        return len(pods), least
    expected = _expected_scale(pods, view)
    if least is not None:
        return expected, scaled_int_or_percent(least, expected, up=True)
    return expected, max(0, expected - scaled_int_or_percent(spec.get("maxUnavailable"), expected, up=True))


def _expected_scale(pods: list[Pod], view: View) -> int:
    """The sum of what the controllers of these pods want; pods without a controller do not count."""
    scales: dict[str, int] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is None or owner.uid in scales:
            continue
        scales |= _scale(pod, owner.kind, owner.name, owner.uid, view)
    return sum(scales.values())


def _scale(pod: Pod, kind: str, name: str, uid: str, view: View) -> dict[str, int]:
    key = (pod.metadata.namespace or "", name)
    owner_kind = {"ReplicaSet": REPLICA_SET, "StatefulSet": STATEFUL_SET}.get(kind)
    owner = view.get(owner_kind, key) if owner_kind else None
    if owner is None or owner.metadata.uid != uid:
        raise _NoScale(f"found no controllers for pod {pod.metadata.name!r}: {kind} {name!r} has no scale")
    above = controller_of(owner)
    deployment = view.get(DEPLOYMENT, (key[0], above.name)) if above and above.kind == "Deployment" else None
    # The Deployment counts, not its ReplicaSets: during a rollout several of them share its replicas.
    if deployment is not None:
        return {uid: 0, deployment.metadata.uid: int(deployment.spec.get("replicas", 1))}
    return {uid: int(owner.spec.get("replicas", 1))}


def _no_disruptions_status(budget: RawObject, message: str, now: float) -> Document:
    """Fail safe: nothing may be disrupted while the budget cannot be computed."""
    conditions = _conditions(budget, False, "SyncFailed", message, now)
    return {"disruptionsAllowed": 0, "observedGeneration": budget.metadata.generation, "conditions": conditions}


def _conditions(budget: RawObject, allowed: bool, reason: str, message: str, now: float) -> list[Document]:
    before = next(iter(budget.status.get("conditions") or ()), None)
    status = "True" if allowed else "False"
    since = before["lastTransitionTime"] if before and before["status"] == status else format_time(now)
    return [
        {
            "type": "DisruptionAllowed",
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": budget.metadata.generation,
            "lastTransitionTime": since,
        }
    ]


def _write(budget: RawObject, wanted: Document, again: float | None) -> Step:
    """The eviction API writes this status too, so the version guards it."""
    changes = {key: value for key, value in wanted.items() if budget.status.get(key) != value}
    if not changes:
        return Step(again=again)
    # A merge patch keeps members that it does not name: pods that are no longer disrupted are removed by null.
    noted = budget.status.get("disruptedPods") or {}
    if changes.get("disruptedPods"):
        changes["disruptedPods"] |= {name: None for name in noted if name not in changes["disruptedPods"]}
    meta = budget.metadata
    patch = Patch(
        kind=BUDGET,
        namespace=meta.namespace,
        name=meta.name,
        changes={"status": changes},
        subresource="status",
        version=meta.resource_version,
    )
    return Step((patch,), again)
