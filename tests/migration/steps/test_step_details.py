"""What steps carry, how time is counted, and that there is always an answer that leads somewhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.migration.conditions import EVICTION_SETTLES_AFTER, is_job_ended, job_ended_at
from restow.migration.effective_options import EffectiveOptions
from restow.migration.facts import Facts, WriteAnswer
from restow.migration.reservation import holds_room
from restow.migration.state_machine import next_step
from restow.migration.steps import (
    AwaitAdmission,
    Done,
    Evict,
    Extend,
    Fail,
    PinPod,
    ReadLive,
    RecordReservation,
    Release,
    Reserve,
    Step,
    Wait,
)
from restow.model.objects import ObjectReference, PodTemplate
from restow.model.pods import is_terminating
from restow.model.reservations.spec import expires_at
from restow.model.resources import template_requests
from restow.model.times import format_time
from tests.migration.move_facts import (
    NO,
    NOW,
    OURS,
    OWNERS,
    YES,
    before,
    facts,
    job,
    node,
    pending,
    pod,
    reservation,
    said,
    seat,
    seat_facts,
    successor,
)
from tests.migration.steps.step_rows import DIRECT, EVICTING


def over(complete: Any) -> Facts:
    """An aborted job with an eviction that may still take effect."""
    return facts(job(complete, EVICTING, phase="Aborted"))


# --- what they carry --------------------------------------------------------------------------------------------------


def test_pinning_records_uid_workload_mode_and_node() -> None:
    direct = EffectiveOptions(mode="EvictDirectly")
    step = next_step(before(pending(pod_ref={"uid": ""}, spec={"mode": None}), workload_uid="deploy", options=direct))
    assert isinstance(step, PinPod)
    assert (step.uid, step.workload, step.mode, step.source) == ("old", "deploy", "EvictDirectly", "n1")


def test_the_reservation_is_of_the_pods_queue_and_large_enough_for_its_successor() -> None:
    large = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
    anew = msgspec.convert({"spec": large}, PodTemplate)
    step = next_step(before(job(ref=None), eviction_dry_run=YES, successor_queue="gold", successor_template=anew))
    assert isinstance(step, Reserve)
    [task] = step.reservation.spec.tasks or []
    assert (step.reservation.spec.queue, template_requests(task.template.spec)) == ("gold", {"cpu": 2000})


def test_the_reservation_outlives_the_job_by_the_grace_period_and_a_margin() -> None:
    step = next_step(before(job(ref=None, age=60), eviction_dry_run=YES))
    assert isinstance(step, Reserve)
    assert step.reservation.spec.ttl == "6m30s"  # 4 minutes are left, 30 s to leave, 2 minutes to spare


def test_the_reservation_of_a_job_without_time_limit_expires_nevertheless() -> None:
    step = next_step(before(job(ref=None), eviction_dry_run=YES, options=EffectiveOptions(ttl=0.0)))
    assert isinstance(step, Reserve)
    assert step.reservation.spec.ttl == "1h2m30s"


def test_the_recorded_reservation_reference_is_complete() -> None:
    step = next_step(facts(job(ref=None)))
    assert isinstance(step, RecordReservation)
    assert step.reference == ObjectReference(
        api_version="batch.volcano.sh/v1alpha1", kind="Reservation", namespace="shop", name=OURS, uid=OURS
    )


def test_an_extension_lasts_for_the_rest_of_the_move() -> None:
    step = next_step(facts(reservation=reservation(ttl="3m")))
    assert isinstance(step, Extend)
    assert step.until == NOW + 240 + 30 + 120


def test_the_eviction_step_has_the_pod_uid_and_the_target_node() -> None:
    step = next_step(facts())
    assert isinstance(step, Evict)
    assert (step.pod.metadata.uid, step.status.node_name) == ("old", "n2")
    assert [(one.type, one.status) for one in step.status.conditions or ()] == [
        ("Admitted", "True"),
        ("ReservationCreated", "True"),
        ("ReservationScheduled", "True"),
        ("Eviction", "False"),
    ]


def test_a_successful_end_names_the_successor_its_node_and_all_conditions() -> None:
    taken = reservation(seat(by="new"), phase="Succeeded")
    step = next_step(facts(job(EVICTING), pod=None, reservation=taken, consumers=(successor(),)))
    assert isinstance(step, Done) and step.status.pod_ref is not None
    assert (step.status.pod_ref.name, step.status.pod_ref.uid, step.status.node_name) == ("web-new", "new", "n2")
    told = {one.type: str(one.status) for one in step.status.conditions or ()}
    seen = ("Eviction", "PodScheduled", "ReservationBound", "PodBoundReservation", "BoundPodReady", "Complete")
    assert told | dict.fromkeys(seen, "True") == told


def test_a_successor_known_by_its_annotation_alone_is_named_in_full() -> None:
    consumer = successor(annotations={"restow.sh/reservation": f"shop/{OURS}/pod/0"})
    step = next_step(facts(job(EVICTING), pod=None, reservation=None, consumers=(consumer,)))
    assert isinstance(step, Done)
    assert step.status.pod_ref == ObjectReference(namespace="shop", name="web-2", uid="new")


@pytest.mark.parametrize(
    ("of", "said_so"),
    [
        pytest.param(facts(job(EVICTING), pod=None), ("True", "EvictComplete"), id="it is gone"),
        pytest.param(facts(job(EVICTING), pod=pod(leaving=True)), ("False", "Evicting"), id="it is leaving"),
        pytest.param(facts(pod=pod(leaving=True)), ("False", "Evicting"), id="by another hand"),
    ],
)
def test_waiting_for_a_successor_also_records_the_departure_of_the_pod(of: Facts, said_so: tuple[str, str]) -> None:
    step = next_step(of)
    assert isinstance(step, Wait)
    told = {one.type: (str(one.status), one.reason) for one in step.status.conditions or ()}
    assert (told["Eviction"], told["PodBoundReservation"]) == (said_so, ("False", "WaitForPodBindReservation"))


@pytest.mark.parametrize(
    "of", [before(job(ref=None), is_fresh=False), facts(is_fresh=False, eviction_dry_run=None, node=None)]
)
def test_a_live_read_before_a_write_includes_the_eviction_dry_run(of: Facts) -> None:
    assert next_step(of) == ReadLive(dry_run_eviction=True)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(facts(job(age=301)), id="it is let go"),
        pytest.param(facts(job(EVICTING, ref=None, age=301), options=DIRECT, reservation=None), id="there is none"),
    ],
)
def test_a_timeout_without_a_kept_seat_does_not_mention_one(of: Facts) -> None:
    step = next_step(of)
    assert isinstance(step, Fail) and "kept" not in (step.status.message or "")


def test_the_grace_period_of_the_job_overrides_that_of_the_pod() -> None:
    assert isinstance(next_step(facts(options=EffectiveOptions(grace_seconds=600))), Extend)


@pytest.mark.parametrize(
    ("of", "again"),
    [
        pytest.param(facts(eviction_dry_run=NO), 10.0, id="a budget is asked again when it says"),
        pytest.param(facts(eviction_dry_run=WriteAnswer(False, "no")), 10.0, id="or after a while"),
        pytest.param(facts(eviction_dry_run=WriteAnswer(False, "no", 30.0)), 30.0, id="or later"),
        pytest.param(before(job(ref=None), refusal=WriteAnswer(False, "quota", 60.0)), 60.0, id="a quota when it says"),
        pytest.param(before(job(ref=None), refusal=WriteAnswer(False, "quota")), 10.0, id="or after a while, too"),
        pytest.param(facts(eviction_dry_run=NO, options=EffectiveOptions(ttl=65.0)), 5.0, id="but the end comes first"),
        pytest.param(facts(stop_reason="x"), 240.0, id="until the end"),
        pytest.param(facts(reservation=reservation(phase="", age=1.0)), 4.0, id="a new reservation is given a moment"),
        pytest.param(facts(reservation=reservation(phase="", age=0.0)), 5.0, id="from its first second"),
        pytest.param(facts(reservation=reservation(phase="", age=5.0)), 240.0, id="and no longer"),
        pytest.param(before(), 480.0, id="until it has waited too long"),
        pytest.param(facts(job(spec={"paused": True})), None, id="a pause has no end"),
        pytest.param(over(said("Complete")), 60.0, id="an eviction that may be on its way is given two minutes"),
        pytest.param(over({"type": "Complete", "status": "False"}), 120.0, id="from now, if its end has no time"),
    ],
)
def test_time_of_the_next_look_at_a_waiting_job(of: Facts, again: float | None) -> None:
    step = next_step(of)
    assert isinstance(step, Wait | AwaitAdmission)
    assert step.retry_at == (None if again is None else NOW + again)


# --- time -------------------------------------------------------------------------------------------------------------


def _paused(seconds: float, ago: float, *, now: bool = False) -> dict[str, Any]:
    """Paused for some seconds in all until some time ago; and since then, too, if it is now."""
    return said("Paused", str(now), age=ago, lastProbeTime=format_time(NOW - ago - seconds))


@pytest.mark.parametrize(
    ("of", "fails"),
    [
        pytest.param(job(age=299), False, id="in time"),
        pytest.param(job(age=300), True, id="at the end"),
        pytest.param(job(_paused(200, ago=50), age=400), False, id="paused time does not count"),
        pytest.param(job(_paused(100, ago=50), age=400), True, id="but the rest does"),
        pytest.param(job(_paused(0, ago=350, now=True), age=400), False, id="resumed just now"),
    ],
)
def test_a_job_fails_when_its_time_is_used_up(of: Any, fails: bool) -> None:
    assert isinstance(next_step(facts(of)), Fail) is fails


def test_several_pauses_of_a_job_add_up() -> None:
    first = next_step(facts(job(spec={"paused": True})))
    assert isinstance(first, Wait)
    paused = replace(job(spec={"paused": True}), status=first.status)
    assert next_step(facts(paused, now=NOW + 50)) == first
    going = replace(paused, spec=replace(paused.spec, paused=False))
    resumed = next_step(facts(going, now=NOW + 100))
    assert isinstance(resumed, Evict)
    again = next_step(facts(replace(paused, status=resumed.status), now=NOW + 150))
    assert isinstance(again, Wait)
    later = replace(going, status=again.status)
    assert isinstance(next_step(facts(later, now=NOW + 379)), Evict)  # 60 s before, 240 s to go, 100 + 229 s paused
    told = next_step(facts(replace(going, status=resumed.status), now=NOW + 341))
    assert isinstance(told, Fail)


def test_pauses_before_admission_do_not_count_afterwards() -> None:
    waited = _paused(550, ago=10)
    assert isinstance(next_step(before(pending(waited), now=NOW + 800)), AwaitAdmission)


# --- always an answer -------------------------------------------------------------------------------------------------

answers = st.none() | st.builds(
    WriteAnswer, st.booleans(), st.sampled_from(("", "no")), st.floats(0, 60), st.booleans()
)
condition = st.builds(
    said,
    st.sampled_from(("Admitted", "Paused", "Eviction", "ReservationScheduled", "Complete", "BoundPodReady")),
    st.sampled_from(("True", "False", "Unknown")),
    st.sampled_from(("", "Evicting", "FailedEvict", "EvictComplete")),
    st.just(""),
    st.floats(0, 700),
)
unique = st.lists(condition, max_size=5, unique_by=lambda one: one["type"])


SUCCESSORS: tuple[dict[str, Any], ...] = ({}, {"podRef": {"name": "web-2", "uid": "new"}}, {"podRef": {}})


@st.composite
def jobs(draw: st.DrawFn) -> Any:
    phase = draw(st.sampled_from(("", "Pending", "Running", "Succeed", "Failed", "Aborted", "Nonsense")))
    conditions = [one for one in draw(unique) if phase != "Running" or one["type"] != "Admitted"]
    return job(
        *conditions,
        phase=phase,
        ref=draw(st.sampled_from((None, "", OURS, "spare"))),
        pod_ref=draw(st.sampled_from(({}, {"uid": ""}, {"uid": "x"}, {"name": ""}, {"kind": "Node"}))),
        spec={"paused": draw(st.booleans())},
        annotations=draw(st.sampled_from(({}, {"restow.sh/target-node": "n1"}))),
        **draw(st.sampled_from(SUCCESSORS)),
    )


pods = st.builds(
    pod,
    uid=st.sampled_from(("old", "new")),
    node=st.sampled_from((None, "n1", "n2")),
    leaving=st.booleans(),
    phase=st.sampled_from(("Pending", "Running", "Succeeded", "Failed")),
)
reservations = st.builds(
    reservation,
    *([st.builds(seat, st.sampled_from(("n1", "n2")), st.sampled_from((None, "old", "new", "9")))] * 1),
    phase=st.sampled_from(("", "Pending", "Waiting", "Available", "Succeeded", "Failed", "Nonsense")),
    name=st.sampled_from((OURS, "spare")),
    ttl=st.sampled_from(("0s", "1m", "10m", "nonsense")),
    reason=st.sampled_from(("", "Expired", "RoomTaken", "NodeGone")),
)
terms = st.builds(
    EffectiveOptions,
    mode=st.sampled_from(("ReservationFirst", "EvictDirectly", "Nonsense")),
    ttl=st.sampled_from((0.0, 30.0, 300.0)),
    waiting_ttl=st.sampled_from((0.0, 30.0)),
    grace_seconds=st.sampled_from((None, 0, 600)),
    dry_run=st.booleans(),
    problem=st.sampled_from(("", "", "spec.ttl: no")),
)
everything = st.builds(
    Facts,
    job=jobs(),
    options=terms,
    now=st.floats(NOW - 100, NOW + 1000),
    pod=st.none() | pods,
    owner_chain=st.sampled_from(((), OWNERS)),
    workload_uid=st.sampled_from((None, "deploy")),
    reservation=st.none() | reservations,
    nodes=st.sampled_from(({}, {"n2": None}, {"n2": node()}, {"n2": node(unschedulable=True)})),
    consumers=st.sampled_from(((), (successor(),), (successor(conditions=[]),), (successor(leaving=True),))),
    foreign_consumers=st.sampled_from((frozenset(), frozenset({"new"}))),
    conflicting_job=st.sampled_from((None, "other")),
    eviction_unsent=st.booleans(),
    stop_reason=st.sampled_from((None, "stopped")),
    rate_limit=answers,
    eviction_dry_run=answers,
    refusal=answers,
    is_fresh=st.booleans(),
)


@st.composite
def nearly_ready(draw: st.DrawFn) -> Facts:
    """Ready for the eviction, but for a thing or two."""
    fields = draw(st.lists(st.sampled_from(Facts.__struct_fields__), max_size=2, unique=True))
    other = draw(everything)
    return replace(facts(), **{field: getattr(other, field) for field in fields})


anything = everything | nearly_ready()


def _settled(of: Facts) -> tuple[Facts, Step]:
    """What a step is, once every look that it asks for was taken."""
    step = next_step(of)
    if isinstance(step, ReadLive):
        of = replace(
            of,
            is_fresh=True,
            eviction_dry_run=of.eviction_dry_run or YES,
            nodes={"n1": node("n1"), "n2": node(), **of.nodes},
        )
        step = next_step(of)
    return of, step


@given(anything)
@settings(max_examples=60, deadline=None)
def test_there_is_always_a_step_and_waiting_has_a_reason(of: Facts) -> None:
    _, step = _settled(of)
    assert not isinstance(step, ReadLive)
    if isinstance(step, Wait) and not is_job_ended(of.job):
        told = [one for one in step.status.conditions or () if one.status != "True" or one.type == "Paused"]
        assert told or step.status.message


@given(anything)
@settings(max_examples=60, deadline=None)
def test_deciding_twice_records_nothing_new(of: Facts) -> None:
    of, step = _settled(of)
    if isinstance(step, Wait) and of.refusal is None:
        again = next_step(of.with_status(step.status))
        assert isinstance(again, Wait)
        assert again.status == step.status


@given(nearly_ready())
@settings(max_examples=100, deadline=None)
def test_no_pod_is_evicted_without_a_fit_seat(of: Facts) -> None:
    of, step = _settled(of)
    if not isinstance(step, Evict):
        return
    assert step.pod.metadata.uid == of.job.spec.pod_ref.uid
    assert of.stop_reason is None and not of.job.spec.paused and not of.options.dry_run
    if of.options.mode == "EvictDirectly":
        return
    held = of.reservation
    assert held is not None and held.status.state.phase == "Available"
    end = expires_at(held) if held.spec.ttl != "nonsense" else None
    seats = seat_facts(of)
    assert end is None or end - of.now >= seats.grace_period + 120
    assert seats.seat is not None and seats.seat.node_name != step.pod.spec.node_name
    found = of.nodes[seats.seat.node_name]
    assert found is not None and not found.spec.unschedulable


@given(anything)
@settings(max_examples=60, deadline=None)
def test_only_an_own_reservation_is_released_and_only_while_the_pod_stays(of: Facts) -> None:
    _, step = _settled(of)
    if isinstance(step, Release):
        assert step.reservation.metadata.name == OURS
        stays = of.pod is not None and of.pod.metadata.uid == "old" and not is_terminating(of.pod)
        assert stays or not (of.has_left and holds_room(step.reservation))
        if of.is_evicting:
            assert stays and of.now - (job_ended_at(of.job) or of.now) >= EVICTION_SETTLES_AFTER, (
                "whatever was sent has ended"
            )
        assert is_job_ended(of.job)


@given(anything)
@settings(max_examples=60, deadline=None)
def test_no_write_is_decided_on_cached_facts(of: Facts) -> None:
    step = next_step(replace(of, is_fresh=False))
    if isinstance(step, PinPod):
        assert of.migrating_pod is not None
    elif isinstance(step, Wait | Done) and step.status != of.job.status:
        assert of.is_evicting and of.has_left
    else:
        assert isinstance(step, ReadLive) or (isinstance(step, Wait | AwaitAdmission) and step.status == of.job.status)
