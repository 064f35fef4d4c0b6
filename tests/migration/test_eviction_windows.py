"""Flow control: however jobs are admitted and evicted, no window of time ever has too many evictions."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from restow.migration.arbitration import JobAdmitted, arbitrate
from restow.migration.arguments import MigrationArguments
from restow.migration.limits import EvictionWindow, MigrationLimits
from tests.eviction.eviction_objects import deployment, pod, replica_set
from tests.migration.job_fixture import NOW, cluster_context, job

SECONDS = 30.0
NOTES = {"restow.sh/workload": "web"}


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.randoms(use_true_random=False))
def test_no_window_has_more_evictions_than_its_limit(most: int, rng: Any) -> None:
    pods = [pod(f"web-{number}", nodeName=f"n{number}") for number in range(8)]
    arguments = MigrationArguments(
        limits=MigrationLimits(
            per_node=None,
            per_workload=12,
            unavailable_per_workload=12,
            workload_window=EvictionWindow(SECONDS, most),
            refuse_small_workloads=False,
        )
    )
    admitted: set[str] = set()
    evicted: dict[str, float] = {}
    now = NOW
    for _ in range(40):
        now += rng.choice([1, 2, 7])
        jobs = [
            job(
                one.metadata.name,
                pod=one.metadata.name,
                phase=_phase(one.metadata.name, admitted, evicted, now),
                evicted=evicted.get(one.metadata.name),
                annotations=NOTES,
            )
            for one in pods
        ]
        here = [one for one in pods if one.metadata.name not in evicted]
        around = cluster_context(here, [deployment(replicas=12), replica_set()], now=now)
        admitted |= {
            one.job.metadata.name for one in arbitrate(jobs, around, arguments) if isinstance(one, JobAdmitted)
        }
        for name in sorted(admitted - set(evicted)):
            if rng.random() < 0.3:
                evicted[name] = now
    for end in evicted.values():
        assert sum(end - SECONDS < one <= end for one in evicted.values()) <= most


def _phase(name: str, admitted: set[str], evicted: dict[str, float], now: float) -> str:
    if name in evicted and now - evicted[name] > 3:
        return "Succeed"
    return "Running" if name in admitted else ""
