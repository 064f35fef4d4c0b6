"""POST pods/eviction: a deletion that the pod's disruption budget has to allow.

terminal, Pending or already deleting pod ---------------------------------> mark and delete
more than one budget ------------------------------------------------------> 500, never
unready pod, budget AlwaysAllow, or healthy enough without it -------------> mark and delete
budget not yet observed, or nothing left in it ----------------------------> 429
otherwise: take one from the budget ---------------------------------------> mark and delete
"""

from __future__ import annotations

from restow.adapters.memory import deletion, errors, query_parameters, request_bodies
from restow.adapters.memory.binding import SUCCESS
from restow.adapters.memory.deletion import DeleteOptions, Preconditions
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State, set_condition
from restow.adapters.memory.store import Stored
from restow.model.objects import Document
from restow.model.selectors import SelectorError, label_selector
from restow.ports import ApiError, Request, Response, StatusCause, StatusDetails, TooManyRequests

MOST_DISRUPTED = 2000
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict_pod(state: State, served: ResourceType, request: Request) -> Response:
    eviction = request_bodies.read_as(request, "policy", "Eviction")
    name = eviction["metadata"].get("name")
    if name != request.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    wanted = _options(eviction, request)
    stored = state.builtin("pods").get(request.namespace or "", request.name or "")
    if stored is None:
        raise errors.not_found("pods", "", request.name or "")
    # 1. The preconditions come first: a wrong UID must not cost the budget a disruption.
    deletion.check_preconditions(served, stored, wanted)
    # 2. The disruption budget, which is charged before the pod is deleted.
    pod = stored.document()
    if not _needs_no_budget(stored, pod):
        _charge_budget(state, stored, pod, dry_run=wanted.is_dry_run)
    # 3. The DisruptionTarget condition says on the pod why it is deleted; then the deletion.
    stored, wanted = _mark_as_evicted(state, stored, pod, wanted)
    deletion.delete_stored_object(state, served, stored, wanted)
    return Response(body=SUCCESS, code=201)


def _options(eviction: Document, request: Request) -> DeleteOptions:
    options = dict(eviction.get("deleteOptions") or {})
    if query_parameters.dry_run(request):
        options["dryRun"] = ["All"]
    return deletion.convert_options(options)


def _needs_no_budget(stored: Stored, pod: Document) -> bool:
    phase = pod.get("status", {}).get("phase")
    return stored.deleting or phase in ("Succeeded", "Failed", "Pending")


def _charge_budget(state: State, stored: Stored, pod: Document, *, dry_run: bool) -> None:
    budgets = _budgets(state, stored)
    if len(budgets) > 1:
        raise errors.internal_error(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if budgets:
        budget = budgets[0].document()
        if _is_ready(pod) or not _allows_unready_pods(budget):
            _take_disruption(state, budgets[0], budget, stored.name, dry_run=dry_run)


def _budgets(state: State, stored: Stored) -> list[Stored]:
    budgets = []
    for budget in state.builtin("poddisruptionbudgets", "policy").within(stored.namespace):
        try:
            selector = label_selector(budget.document().get("spec", {}).get("selector"))
        except SelectorError:
            continue
        if selector.matches(stored.labels):
            budgets.append(budget)
    return budgets


def _is_ready(pod: Document) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _allows_unready_pods(budget: Document) -> bool:
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _take_disruption(state: State, stored: Stored, budget: Document, pod: str, *, dry_run: bool) -> None:
    status = budget.setdefault("status", {})
    name = stored.name
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise errors.forbidden_error("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    disrupted = dict(status.get("disruptedPods") or {})
    if len(disrupted) > MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden_error("poddisruptionbudget", "policy", name, why)
    if allowed == 0:
        raise _too_many(_no_disruptions_message(name, status), 0)
    if dry_run:
        return
    status["disruptionsAllowed"] = allowed - 1
    status["disruptedPods"] = disrupted | {pod: state.stamp()}
    if allowed == 1:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration", 0),
        }
        set_condition(status, condition, state.stamp())
    state.store.put(state.builtin("poddisruptionbudgets", "policy"), budget)


def _no_disruptions_message(name: str, status: Document) -> str:
    conditions = status.get("conditions") or ()
    condition: Document = next((each for each in conditions if each.get("type") == "DisruptionAllowed"), {})
    message = condition.get("message") if condition.get("status") == "False" else ""
    desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    start = f"The disruption budget {name}"
    if message and condition.get("reason") == "SyncFailed":
        return f"{start} does not allow evicting pods currently because it failed sync: {message}"
    if current <= desired:
        return f"{start} needs {desired} healthy pods and has {current} currently"
    if message:
        return f"{start} does not allow evicting pods currently ({condition.get('reason')}): {message}"
    return f"{start} does not allow evicting pods currently"


def _too_many(why: str, seconds: int) -> ApiError:
    cause = StatusCause(reason="DisruptionBudget", message=why)
    details = StatusDetails(causes=[cause], retry_after_seconds=seconds or None)
    return TooManyRequests.because(429, "TooManyRequests", _REFUSED, details)


def _mark_as_evicted(
    state: State, stored: Stored, pod: Document, wanted: DeleteOptions
) -> tuple[Stored, DeleteOptions]:
    """Set the DisruptionTarget condition of the pod; a precondition on its version then means the new version."""
    if wanted.is_dry_run:
        return stored, wanted
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = pod.setdefault("status", {})
    before = list(status.get("conditions") or ())
    set_condition(status, condition, state.stamp())
    marked = state.store.put(state.builtin("pods"), pod) if status["conditions"] != before else stored
    must = wanted.preconditions
    if must is not None and must.version is not None:
        must = Preconditions(uid=must.uid, version=str(marked.version))
    return marked, DeleteOptions(
        grace_period_seconds=wanted.grace_period_seconds,
        preconditions=must,
        propagation_policy=wanted.propagation_policy,
        orphan_dependents=wanted.orphan_dependents,
    )
