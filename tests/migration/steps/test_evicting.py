"""With the seat ready: the pod is evicted, unless something holds evictions up."""

from __future__ import annotations

from typing import Any

from restow.migration.effective_options import EffectiveOptions
from restow.migration.facts import WriteAnswer
from restow.migration.steps import Abort, Evict, Fail, ReadLive, Wait
from tests.migration.move_facts import NO, YES, facts, job, reservation, said
from tests.migration.steps.step_rows import DIRECT, DRY, EVICTING, REFUSED, Row, check, given, table

SEATED = said("ReservationScheduled", message="a seat is kept on node n2")
JUST_SENT = job(SEATED, said("Eviction", "False", "Evicting", age=1.0), nodeName="n2")
CACHED: dict[str, Any] = {"is_fresh": False, "eviction_dry_run": None, "node": None}

ROWS: list[Row] = [
    ("everything is ready", facts(), Evict, "Evicting", "pod shop/web-1 leaves node n1; its seat is on node n2"),
    ("from caches", facts(is_fresh=False), ReadLive, None, ""),
    ("not tried", facts(eviction_dry_run=None), ReadLive, None, ""),
    ("a budget refuses", facts(eviction_dry_run=NO), Wait, "FailedEvict", "needs 2 healthy pods"),
    ("stopped", facts(stop_reason="evictions are stopped"), Wait, "Stopped", "evictions are stopped"),
    (
        "its workload is short",
        facts(workload_unavailable="2 of 3 pods"),
        Wait,
        "MaxUnavailablePerWorkload",
        "2 of 3 pods",
    ),
    (
        "sent, and now its workload is short",
        facts(job(EVICTING), workload_unavailable="2 of 3 pods"),
        Wait,
        "Evicting",
        "",
    ),
    (
        "not sent, and now its workload is short",
        facts(job(EVICTING), eviction_unsent=True, workload_unavailable="2 of 3 pods"),
        Wait,
        "MaxUnavailablePerWorkload",
        "2 of 3 pods",
    ),
    (
        "directly, its workload is short",
        facts(job(ref=None), options=DIRECT, reservation=None, workload_unavailable="2 of 3 pods"),
        Wait,
        "MaxUnavailablePerWorkload",
        "2 of 3 pods",
    ),
    ("not its turn", facts(rate_limit=WriteAnswer(False, "10 per second", 3.0)), Wait, "EvictQPS", "10 per second"),
    ("its turn", facts(rate_limit=YES), Evict, "Evicting", "leaves node n1"),
    (
        "a dry run",
        facts(**given(), options=DRY),
        Abort,
        "DryRun",
        "dry run, nothing was changed: pod shop/web-1 leaves node n1; its seat is on node n2: it would be evicted",
    ),
    (
        "a dry run, asked for when its seat was made",
        facts(options=DRY),
        Abort,
        "DryRun",
        "dry run, but reservation restow-job-uid was created before and is released now: pod shop/web-1 leaves node n1",
    ),
    (
        "a dry run, asked for when the eviction was sent",
        facts(job(EVICTING), options=DRY),
        Abort,
        "DryRun",
        "dry run, but an eviction was recorded before and may still take effect: pod shop/web-1 leaves node n1",
    ),
    ("the API refused after all", facts(job(EVICTING), refusal=NO), Wait, "FailedEvict", "needs 2 healthy pods"),
    ("refused before, allowed now", facts(job(REFUSED)), Evict, "Evicting", "leaves node n1"),
    ("sent, and nothing happened", facts(job(EVICTING)), Evict, "Evicting", "leaves node n1"),
    ("just sent, and the cache does not show it", facts(JUST_SENT, **CACHED), Wait, "Evicting", ""),
    ("sent a while ago, and the cache does not show it", facts(job(EVICTING), **CACHED), ReadLive, None, ""),
    ("sent, and now a budget refuses", facts(job(EVICTING), eviction_dry_run=NO), Wait, "Evicting", ""),
    ("sent, and now stopped", facts(job(EVICTING), stop_reason="x"), Wait, "Evicting", ""),
    ("sent, and time is up", facts(job(EVICTING, age=301)), Fail, "Timeout", "the eviction may still take effect"),
    ("not sent, and now stopped", facts(job(EVICTING), eviction_unsent=True, stop_reason="x"), Wait, "Stopped", "x"),
    (
        "not sent, and now a budget refuses",
        facts(job(EVICTING), eviction_unsent=True, eviction_dry_run=NO),
        Wait,
        "FailedEvict",
        "healthy",
    ),
    ("not sent, and now it may be", facts(job(EVICTING), eviction_unsent=True), Evict, "Evicting", "leaves node n1"),
    ("not sent, by the caches", facts(JUST_SENT, eviction_unsent=True, **CACHED), ReadLive, None, ""),
    (
        "not sent, and time is up while it is stopped",
        facts(job(EVICTING, age=301), eviction_unsent=True, stop_reason="evictions are stopped"),
        Fail,
        "Timeout",
        "not done within 5m0s: evictions are stopped",
    ),
    (
        "not sent, and paused",
        facts(job(EVICTING, spec={"paused": True}), eviction_unsent=True),
        Wait,
        "Paused",
        "its ttl does not run",
    ),
    ("paused", facts(job(spec={"paused": True})), Wait, "Paused", "its ttl does not run"),
    ("time is up", facts(job(age=301)), Fail, "Timeout", "not done within 5m0s"),
    (
        "time is up, waiting for a budget",
        facts(job(age=301), eviction_dry_run=NO),
        Fail,
        "Timeout",
        "within 5m0s: The disruption budget web",
    ),
    (
        "time is up, a short one",
        facts(job(age=2), options=EffectiveOptions(ttl=1.0)),
        Fail,
        "Timeout",
        "not done within 1s",
    ),
    ("time is up, no limit", facts(job(age=9999), options=EffectiveOptions(ttl=0.0)), Evict, "Evicting", "leaves"),
    ("the UID was removed", facts(job(pod_ref={"uid": ""})), Fail, "InvalidPodRef", "not the pod that was admitted"),
    ("another pod was named", facts(job(pod_ref={"uid": "x"})), Fail, "InvalidPodRef", "'x' is not the pod"),
    ("directly", facts(job(ref=None), options=DIRECT, reservation=None), Evict, "Evicting", "no seat is kept"),
    (
        "directly, protected since it was admitted",
        facts(job(ref=None), options=DIRECT, reservation=None, forbidden="never"),
        Fail,
        "ForbiddenMigratePod",
        "never",
    ),
    (
        "directly, a rival",
        facts(job(ref=None), options=DIRECT, reservation=None, conflicting_job="o"),
        Fail,
        "ForbiddenMigratePod",
        "job o",
    ),
    (
        "directly, refused",
        facts(job(ref=None), options=DIRECT, reservation=None, eviction_dry_run=NO),
        Wait,
        "FailedEvict",
        "budget",
    ),
    ("refused, and not told until when", facts(eviction_dry_run=WriteAnswer(False, "no")), Wait, "FailedEvict", "no"),
    (
        "directly, time is up",
        facts(job(EVICTING, ref=None, age=301), options=DIRECT, reservation=None),
        Fail,
        "Timeout",
        "not done within 5m0s",
    ),
    (
        "sent, and its seat is none any more, by the caches",
        facts(job(EVICTING), reservation=reservation(phase="Pending", message="no room"), is_fresh=False),
        ReadLive,
        None,
        "",
    ),
    (
        "its pod was given another name",
        facts(job(pod_ref={"name": "wrong"})),
        Fail,
        "InvalidPodRef",
        "the pod with UID old is shop/web-1, not shop/wrong",
    ),
    (
        "directly, the UID was removed",
        facts(job(ref=None, pod_ref={"uid": ""}), options=DIRECT, reservation=None),
        Fail,
        "InvalidPodRef",
        "not the pod that was admitted",
    ),
    (
        "stopped, and not its turn",
        facts(stop_reason="stopped", rate_limit=WriteAnswer(False, "x", 3.0)),
        Wait,
        "Stopped",
        "stopped",
    ),
]


@table(ROWS)
def test_next_step_with_the_seat_ready(row: Row) -> None:
    check(row)
