"""What kubectl shows of pods: the status is what the containers make of it."""

from __future__ import annotations

from typing import Any

import pytest

from restow.adapters.rest.tables import build_table, printer_of
from restow.adapters.rest.tables.pods import summarize_pod
from tests.rest.rows import NOW, ago, row


def status(name: str, **state: Any) -> dict[str, Any]:
    extra: dict[str, Any] = {
        key: state.pop(key) for key in ("ready", "restartCount", "started", "lastState") if key in state
    }
    return {"name": name, "state": state, **extra}


RUNNING = status("a", running={}, ready=True)
PODS: dict[str, tuple[dict[str, Any], str, str]] = {
    "not scheduled": ({"status": {"phase": "Pending"}}, "0/1", "Pending"),
    "held back by a gate": (
        {"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
        "0/1",
        "SchedulingGated",
    ),
    "running": ({"status": {"phase": "Running", "containerStatuses": [RUNNING]}}, "1/1", "Running"),
    "evicted by the kubelet": ({"status": {"phase": "Failed", "reason": "Evicted"}}, "0/1", "Evicted"),
    "crashing": (
        {"status": {"phase": "Running", "containerStatuses": [status("a", waiting={"reason": "CrashLoopBackOff"})]}},
        "0/1",
        "CrashLoopBackOff",
    ),
    "completed": (
        {
            "status": {
                "phase": "Succeeded",
                "containerStatuses": [status("a", terminated={"exitCode": 0, "reason": "Completed"})],
            }
        },
        "0/1",
        "Completed",
    ),
    "ended by a signal": (
        {"status": {"phase": "Failed", "containerStatuses": [status("a", terminated={"exitCode": 137, "signal": 9})]}},
        "0/1",
        "Signal:9",
    ),
    "ended with a code": (
        {"status": {"phase": "Failed", "containerStatuses": [status("a", terminated={"exitCode": 3})]}},
        "0/1",
        "ExitCode:3",
    ),
    "one of two completed, the other runs": (
        {
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [status("b", terminated={"exitCode": 0, "reason": "Completed"}), RUNNING],
            }
        },
        "1/1",
        "Running",
    ),
    "one of two completed, the other is not ready": (
        {
            "status": {
                "phase": "Running",
                "containerStatuses": [status("b", terminated={"exitCode": 0, "reason": "Completed"}), RUNNING],
            }
        },
        "1/1",
        "NotReady",
    ),
    "first init container runs": (
        {
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [status("i", running={}), status("j", waiting={})]},
        },
        "0/1",
        "Init:0/2",
    ),
    "second init container failed": (
        {
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {
                "phase": "Pending",
                "initContainerStatuses": [
                    status("i", terminated={"exitCode": 0}),
                    status("j", terminated={"exitCode": 2, "reason": "Error"}),
                ],
            },
        },
        "0/1",
        "Init:Error",
    ),
    "init container cannot pull": (
        {
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [status("i", waiting={"reason": "ErrImagePull"})]},
        },
        "0/1",
        "Init:ErrImagePull",
    ),
    "a sidecar counts as a container": (
        {
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            "status": {
                "phase": "Running",
                "initContainerStatuses": [status("s", running={}, ready=True, started=True)],
                "containerStatuses": [RUNNING],
            },
        },
        "2/2",
        "Running",
    ),
    "being deleted": (
        {"metadata": {"deletionTimestamp": ago(1)}, "status": {"phase": "Running", "containerStatuses": [RUNNING]}},
        "1/1",
        "Terminating",
    ),
    "being deleted on a lost node": (
        {"metadata": {"deletionTimestamp": ago(1)}, "status": {"phase": "Running", "reason": "NodeLost"}},
        "0/1",
        "Unknown",
    ),
    "ended and being deleted": (
        {"metadata": {"deletionTimestamp": ago(1)}, "status": {"phase": "Failed"}},
        "0/1",
        "Failed",
    ),
}


@pytest.mark.parametrize(("pod", "ready", "shown"), PODS.values(), ids=PODS)
def test_pod_row_shows_ready_status_and_restarts(pod: dict[str, Any], ready: str, shown: str) -> None:
    summary = summarize_pod({"spec": {"containers": [{"name": "a"}]}, **pod})
    assert (f"{summary.ready}/{summary.total}", summary.reason) == (ready, shown)


def test_a_pod_row_is_wide_and_tells_restarts() -> None:
    last = {"terminated": {"finishedAt": ago(300)}}
    pod = {
        "spec": {"containers": [{"name": "a"}], "nodeName": "n1", "readinessGates": [{"conditionType": "g"}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [RUNNING | {"restartCount": 2, "lastState": last}],
        },
    }
    assert row("", "Pod", pod) == {
        "Name": "x",
        "Ready": "1/1",
        "Status": "Running",
        "Restarts": "2 (5m ago)",
        "Age": "90s",
        "IP": "10.0.0.1",
        "Node": "n1",
        "Nominated Node": "<none>",
        "Readiness Gates": "0/1",
    }


def test_a_finished_pod_is_marked_completed() -> None:
    made = build_table([{"status": {"phase": "Failed"}}], {}, printer_of("", "Pod"), now=NOW)
    assert made["rows"][0]["conditions"][0]["reason"] == "Failed"
