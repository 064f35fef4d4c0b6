"""How often the pods of a Job may still be lost."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from restow.eviction.workloads import Workloads
from restow.model.objects import Job, Pod
from restow.model.wire import convert_document
from tests.eviction.eviction_objects import pod


def job(failed: int = 0, noted: tuple[str, ...] = (), **spec: Any) -> Job:
    metadata = {"name": "etl", "namespace": "shop", "uid": "etl"}
    status = {"failed": failed, "uncountedTerminatedPods": {"failed": list(noted)}}
    return convert_document(Job, {"metadata": metadata, "spec": spec, "status": status})


def of_job(name: str = "etl-1", **more: Any) -> Pod:
    return pod(name, owner="Job etl", containers=[{"name": "main"}], **more)


def policy(action: str, type: str = "DisruptionTarget") -> Any:
    return {"rules": [{"action": "Count"}, {"action": action, "onPodConditions": [{"type": type}]}]}


def exits(action: str, operator: str, *values: int, of: str | None = None) -> Any:
    """Some exit codes, before evictions, which do not count."""
    codes = {"operator": operator, "values": list(values), "containerName": of}
    return {"rules": [{"action": action, "onExitCodes": codes}, *policy("Ignore")["rules"]]}


ENDED = "its podFailurePolicy reacts to its loss with FailJob: Job shop/etl would not recreate it"
TRIED = {"batch.kubernetes.io/job-index-failure-count": "1"}
LAST = "Job shop/etl would fail and not recreate it: {} is {}, and {} failed before"
TRACKED = ["batch.kubernetes.io/job-tracking"]
GONE = "2027-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("of", "lost", "why"),
    [
        pytest.param(job(), of_job(), "", id="six by default"),
        pytest.param(job(6), of_job(), LAST.format("backoffLimit", 6, "6 pods"), id="of which six were"),
        pytest.param(job(backoffLimit=0), of_job(), LAST.format("backoffLimit", 0, "0 pods"), id="none"),
        pytest.param(job(1, backoffLimit=2), of_job(), "", id="one more"),
        pytest.param(job(backoffLimit=0), of_job(phase="Failed"), "", id="it was lost before"),
        pytest.param(job(9, backoffLimitPerIndex=2), of_job(annotations=TRIED), "", id="of its index one more"),
        pytest.param(
            job(backoffLimitPerIndex=1),
            of_job(annotations=TRIED),
            LAST.format("backoffLimitPerIndex", 1, "1 pod"),
            id="of its index no more",
        ),
        pytest.param(job(backoffLimit=0, podFailurePolicy=policy("Ignore")), of_job(), "", id="evictions do not count"),
        pytest.param(
            job(podFailurePolicy=policy("FailJob")),
            of_job(),
            ENDED,
            id="evictions end it",
        ),
        pytest.param(job(podFailurePolicy=policy("FailJob", "Odd")), of_job(), "", id="something else ends it"),
        pytest.param(job(podFailurePolicy=exits("FailJob", "In", 1, 143)), of_job(), ENDED, id="SIGTERM ends it"),
        pytest.param(job(podFailurePolicy=exits("FailJob", "In", 137)), of_job(), ENDED, id="SIGKILL ends it"),
        pytest.param(job(podFailurePolicy=exits("FailJob", "In", 1, 42)), of_job(), "", id="other exits end it"),
        pytest.param(job(podFailurePolicy=exits("FailJob", "NotIn", 0, 42)), of_job(), ENDED, id="most exits end it"),
        pytest.param(job(podFailurePolicy=exits("FailJob", "NotIn", 143)), of_job(), ENDED, id="SIGKILL is among them"),
        pytest.param(
            job(podFailurePolicy=exits("FailJob", "NotIn", 137, 143)), of_job(), "", id="neither signal is among them"
        ),
        pytest.param(
            job(podFailurePolicy=exits("FailJob", "In", 143, of="main")), of_job(), ENDED, id="those of its container"
        ),
        pytest.param(
            job(podFailurePolicy=exits("FailJob", "In", 143, of="other")),
            of_job(),
            "",
            id="those of no container of it",
        ),
        pytest.param(
            job(podFailurePolicy={"rules": policy("Ignore")["rules"] + exits("FailJob", "In", 143)["rules"]}),
            of_job(),
            "",
            id="evictions do not count, whatever it exits with",
        ),
        pytest.param(
            job(podFailurePolicy={"rules": exits("Ignore", "In", 143)["rules"][:1] + policy("FailJob")["rules"]}),
            of_job(),
            ENDED,
            id="SIGTERM does not count, but it may exit otherwise",
        ),
        pytest.param(
            job(podFailurePolicy=exits("Count", "NotIn", 42), backoffLimit=0),
            of_job(),
            LAST.format("backoffLimit", 0, "0 pods"),
            id="its exit may count before evictions do not",
        ),
    ],
)
def test_job_failure_by_the_loss_of_a_pod(of: Job, lost: Pod, why: str) -> None:
    workloads = Workloads()
    workloads.put_owner(of)
    assert workloads.job_failure_by_loss(lost) == why


LEAVING = of_job("etl-2", deletionTimestamp=GONE, finalizers=TRACKED)


@pytest.mark.parametrize(
    ("of", "other", "lost"),
    [
        pytest.param(job(backoffLimit=9), LEAVING, 1, id="just seen to leave"),
        pytest.param(job(backoffLimit=9, noted=("etl-2",)), LEAVING, 1, id="noted to be counted"),
        pytest.param(job(backoffLimit=9, noted=("etl-2",)), of_job("etl-2", deletionTimestamp=GONE), 1, id="let go"),
        pytest.param(job(1, backoffLimit=9), of_job("etl-2", deletionTimestamp=GONE), 1, id="counted, on its way out"),
        pytest.param(job(1, backoffLimit=9), LEAVING, 2, id="another one was counted"),
        pytest.param(job(backoffLimit=9), of_job("etl-2", deletionTimestamp=GONE), 0, id="given up by the Job itself"),
        pytest.param(
            job(backoffLimit=9), of_job("etl-2", phase="Failed", finalizers=TRACKED), 1, id="failed by itself"
        ),
        pytest.param(job(1, backoffLimit=9), of_job("etl-2", phase="Failed"), 1, id="failed by itself, counted"),
        pytest.param(
            job(backoffLimit=9),
            of_job("etl-2", phase="Succeeded", deletionTimestamp=GONE, finalizers=TRACKED),
            0,
            id="done before it left",
        ),
        pytest.param(
            job(backoffLimit=9),
            of_job("etl-1", deletionTimestamp=GONE, finalizers=TRACKED),
            0,
            id="the one asked about",
        ),
        pytest.param(job(backoffLimit=9, noted=("etl-1",)), of_job(), 0, id="the one asked about, noted"),
    ],
)
def test_a_lost_pod_of_a_job_counts_once(of: Job, other: Pod, lost: int) -> None:
    workloads = Workloads()
    workloads.put_pod(other)
    for limit in (lost, lost + 1):
        workloads.put_owner(replace(of, spec=replace(of.spec, backoff_limit=limit)))
        assert bool(workloads.job_failure_by_loss(of_job())) == (limit == lost)


def test_a_deleted_pod_counts_only_once_its_job_has_counted_it() -> None:
    workloads = Workloads()
    workloads.put_owner(job(backoffLimit=1))
    workloads.put_pod(LEAVING)
    assert workloads.job_failure_by_loss(of_job()) == LAST.format("backoffLimit", 1, "1 pod")
    workloads.put_pod(of_job("etl-2", deletionTimestamp=GONE))
    assert workloads.job_failure_by_loss(of_job()) == ""
    workloads.put_pod(LEAVING)
    workloads.drop_pod("etl-2")
    assert workloads.job_failure_by_loss(of_job()) == ""


def test_job_failure_of_one_pod_costs_the_same_for_any_number_of_pods() -> None:
    assert calls_to_ask(1000) == calls_to_ask(1)


def calls_to_ask(others: int) -> int:
    """How many functions are called to say what the loss of one pod would end."""
    workloads, calls = Workloads(), 0
    workloads.put_owner(job())
    for number in range(others):
        workloads.put_pod(of_job(f"etl-{number}", finalizers=TRACKED))

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    asked, before = of_job(), sys.getprofile()
    sys.setprofile(count)
    try:
        workloads.job_failure_by_loss(asked)
    finally:
        sys.setprofile(before)
    return calls


def test_pods_of_unknown_owners_fail_no_job() -> None:
    assert Workloads().job_failure_by_loss(of_job()) == "" and Workloads().job_failure_by_loss(pod(owner="")) == ""
