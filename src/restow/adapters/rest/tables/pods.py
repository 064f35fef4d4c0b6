"""The row of a pod: READY, STATUS and RESTARTS as kubectl users know them.

STATUS is not a field of the API but a summary: the phase, overruled by the status reason, by the first init container
that is not done, by what the containers wait for or ended with, and finally by a deletion under way.
"""

from __future__ import annotations

from typing import NamedTuple

from restow.adapters.rest.tables.columns import AGE, NAME, NONE, Cells, age_of, make_printer, name_of, wide_column
from restow.adapters.rest.tables.durations import age_since
from restow.adapters.rest.unchecked_documents import at, condition_is_true, flag, mapping, number, sequence, text
from restow.model.objects import Document

GATED = "SchedulingGated"


class Summary(NamedTuple):
    reason: str
    ready: int
    total: int
    restarts: int
    last_restart: str


class _Init(NamedTuple):
    """What the init containers say. `reason` is None once all are done."""

    reason: str | None
    ready: int
    restarts: int
    last_restart: str
    sidecar_restarts: int
    sidecar_last_restart: str


class _Main(NamedTuple):
    reason: str
    ready: int
    restarts: int
    last_restart: str


def summarize_pod(pod: Document) -> Summary:
    sidecars = {text(each, "name") for each in sequence(pod, "spec", "initContainers") if _is_sidecar(each)}
    total = len(sequence(pod, "spec", "containers")) + len(sidecars)
    init = _init(pod, sidecars)
    if init.reason is not None and not condition_is_true(pod, "Initialized"):
        result = Summary(init.reason, init.ready, total, init.restarts, init.last_restart)
    else:
        main = _main(pod, init.reason or _base_reason(pod))
        restarts = init.sidecar_restarts + main.restarts
        last = max(init.sidecar_last_restart, main.last_restart)
        result = Summary(main.reason, init.ready + main.ready, total, restarts, last)
    return result._replace(reason=_unless_deleted(pod, result.reason))


def _is_sidecar(container: Document) -> bool:
    return text(container, "restartPolicy") == "Always"


def _base_reason(pod: Document) -> str:
    conditions = sequence(pod, "status", "conditions")
    if any(text(each, "type") == "PodScheduled" and text(each, "reason") == GATED for each in conditions):
        return GATED
    return text(pod, "status", "reason") or text(pod, "status", "phase")


def _unless_deleted(pod: Document, reason: str) -> str:
    if not text(pod, "metadata", "deletionTimestamp"):
        return reason
    if text(pod, "status", "reason") == "NodeLost":
        return "Unknown"
    return reason if text(pod, "status", "phase") in ("Succeeded", "Failed") else "Terminating"


def _init(pod: Document, sidecars: set[str]) -> _Init:
    ready = restarts = sidecar_restarts = 0
    last = sidecar_last = ""
    declared = len(sequence(pod, "spec", "initContainers"))
    reason = None
    for index, status in enumerate(sequence(pod, "status", "initContainerStatuses")):
        is_sidecar = text(status, "name") in sidecars
        restarts += number(status, "restartCount")
        last = max(last, _last_restart(status))
        if is_sidecar:
            sidecar_restarts += number(status, "restartCount")
            sidecar_last = max(sidecar_last, _last_restart(status))
        terminated = at(status, "state", "terminated")
        if isinstance(terminated, dict) and not number(terminated, "exitCode"):
            continue
        if is_sidecar and flag(status, "started"):
            ready += flag(status, "ready")
            continue
        reason = _init_reason(status, index, declared)
        break
    return _Init(reason, ready, restarts, last, sidecar_restarts, sidecar_last)


def _init_reason(status: Document, index: int, declared: int) -> str:
    terminated = at(status, "state", "terminated")
    if isinstance(terminated, dict):
        return "Init:" + _ended(terminated)
    waiting = text(status, "state", "waiting", "reason")
    return f"Init:{waiting}" if waiting and waiting != "PodInitializing" else f"Init:{index}/{declared}"


def _main(pod: Document, reason: str) -> _Main:
    ready = restarts = 0
    last = failure = ""
    running = False
    for status in reversed(sequence(pod, "status", "containerStatuses")):
        restarts += number(status, "restartCount")
        last = max(last, _last_restart(status))
        state = mapping(status, "state")
        terminated = at(state, "terminated")
        if waiting := text(state, "waiting", "reason"):
            reason = waiting
        elif isinstance(terminated, dict):
            reason = _ended(terminated)
            failure = reason if number(terminated, "exitCode") else failure
        elif flag(status, "ready") and isinstance(at(state, "running"), dict):
            running = True
            ready += 1
    if reason == "Completed":
        reason = _partly_completed(pod, running, failure)
    return _Main(reason, ready, restarts, last)


def _partly_completed(pod: Document, running: bool, failure: str) -> str:
    if running and condition_is_true(pod, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else "Completed")


def _ended(terminated: Document) -> str:
    if reason := text(terminated, "reason"):
        return reason
    signal = number(terminated, "signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{number(terminated, 'exitCode')}"


def _last_restart(status: Document) -> str:
    """When the previous run ended; timestamps of one form compare as text."""
    return text(status, "lastState", "terminated", "finishedAt")


def _gates(pod: Document) -> str:
    gates = [text(each, "conditionType") for each in sequence(pod, "spec", "readinessGates")]
    return f"{sum(condition_is_true(pod, gate) for gate in gates)}/{len(gates)}" if gates else NONE


def pod_cells(pod: Document, now: float) -> Cells:
    pod_summary = summarize_pod(pod)
    restarts = f"{pod_summary.restarts}"
    if pod_summary.restarts and pod_summary.last_restart:
        restarts += f" ({age_since(pod_summary.last_restart, now)} ago)"
    return [
        name_of(pod),
        f"{pod_summary.ready}/{pod_summary.total}",
        pod_summary.reason,
        restarts,
        age_of(pod, now),
        text(pod, "status", "podIP") or NONE,
        text(pod, "spec", "nodeName") or NONE,
        text(pod, "status", "nominatedNodeName") or NONE,
        _gates(pod),
    ]


def row_conditions(pod: Document) -> list[Document]:
    """Completed pods are marked, so that clients can grey them out."""
    match text(pod, "status", "phase"):
        case "Succeeded":
            message = "The pod ended and was successful."
        case "Failed":
            message = "The pod ended and was not successful."
        case _:
            return []
    return [{"type": "Completed", "status": "True", "reason": text(pod, "status", "phase"), "message": message}]


POD = make_printer(
    pod_cells,
    *(NAME, "Ready", "Status", "Restarts", AGE),
    *(wide_column("IP"), wide_column("Node"), wide_column("Nominated Node"), wide_column("Readiness Gates")),
)
