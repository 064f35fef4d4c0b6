"""Starting a job: all of its pods that must start together, or none.

Goes in: a session and a job. Comes out: whether it started; if not, what to say. `start` uses room that is free now,
and room kept for others if the job is over before they need it; `keep_room` finds room that will be free once others
are gone, and keeps it. A gang that has started, or has been bound in part, takes one pod at a time: nothing of it can
be taken back any more, and each brings it further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from restow.model.cluster import Occupant
from restow.model.object_key import key_of
from restow.model.objects import Placement, Pod, Reservation
from restow.scheduling.actions.job_limits import JobLimits
from restow.scheduling.cluster_events import GANG
from restow.scheduling.explain import describe_plugin_failure, join_reasons
from restow.scheduling.framework import SUCCESS, Code, Cycle, Verdict
from restow.scheduling.jobs import Job, missing_roles_message, seat_of_reserved_pod
from restow.scheduling.schedule_result import Placed, Unplaced
from restow.scheduling.seat_checks.seat_health import seats_on
from restow.scheduling.session import Session
from restow.scheduling.statement import Statement, assign

_LOOK_AHEAD = 512
"""How many pods at most are imagined gone to see when a gang fits."""


class JobFailure(msgspec.Struct, frozen=True):
    """Why a job did not start."""

    message: str
    plugins: frozenset[str]
    code: Code = Code.UNSCHEDULABLE
    may_wait: bool = False
    """Whether room that others are leaving could help."""
    nominated: Mapping[str, str] = {}
    """Pods for which PostFilter wants room kept, by UID, and the node."""


class JobStarted(msgspec.Struct, frozen=True):
    pods: int


def start_job(session: Session, job: Job) -> JobStarted | JobFailure:
    """Place as many pods as must start together, of a gang with pods on nodes one more; nothing is placed if they do
    not fit."""
    try:
        result = _start(session, job)
        if isinstance(result, JobFailure) and result.may_wait and _can_borrow(session, job):
            with session.kept_room.lent_to(job.pods):
                return _start(session, job)
        return result
    except Exception as error:
        return failure_of_plugin(error)


def _can_borrow(session: Session, job: Job) -> bool:
    """Whether the job is over before a pod needs the room that is kept for it."""
    return job.reservation is None and session.kept_room.can_lend_to(job.pods)


def failure_of_plugin(error: Exception) -> JobFailure:
    """What a plugin raised: it must not keep other jobs from starting."""
    return JobFailure(describe_plugin_failure(error), frozenset(), Code.ERROR)


def _start(session: Session, job: Job) -> JobStarted | JobFailure:
    limits = JobLimits(session, job)
    refused = _inadmissible(session, job, limits)
    if refused is not None:
        return refused
    if not job.is_gang and job.reservation is None:
        return _start_single(session, job)
    with session.statement() as statement:
        lacking = place_job_pods(session, job, _put(statement, job.reservation), limits=limits)
        if lacking is not None:
            return lacking
        pods = len(job.pods)
        session.decisions.accept(job, statement)
    return JobStarted(pods - len(job.pods))


Put = Callable[[Cycle, Placed], Verdict]


def _put(statement: Statement, reservation: Reservation | None) -> Put:
    """How a pod of a job is put on a node: stand-ins are held there."""

    def hold(cycle: Cycle, found: Placed) -> Verdict:
        assert reservation is not None
        statement.reserve(reservation, [_placement(cycle.pod, found.node)])
        return SUCCESS

    return hold if reservation is not None else lambda cycle, found: statement.allocate(cycle, found.node)


def _placement(stand_in: Pod, node: str) -> Placement:
    seat = seat_of_reserved_pod(stand_in)
    return Placement(task=seat.task, index=seat.index, node_name=node)


def _start_single(session: Session, job: Job) -> JobStarted | JobFailure:
    """A job of one pod needs no statement: an assignment that fails takes itself back."""
    cycle = Cycle(job.pods[0], session.snapshot, session.now)
    found = session.nodes.place(cycle)
    if isinstance(found, Unplaced):
        return _failure(job, 0, [(cycle.pod, found)])
    assigned = assign(session.engine, cycle, found.node)
    if isinstance(assigned, Verdict):
        return _failure(job, 0, [(cycle.pod, assigned)])
    session.decisions.assign_single(job, assigned)
    return JobStarted(1)


def keep_room_for_job(session: Session, job: Job, failure: JobFailure) -> JobFailure | None:
    """Keep room for a job on what others are leaving; if that is not enough, or not known, why it still has to wait.

    For a gang, pods whose end is known count as leaving, as few of the soonest as are needed. A reservation holds the
    room from now on; nobody else gets it. One that has all that it needs can be relied on meanwhile, and stands before
    newer ones: it gets more only where nobody else has a seat that would have to wait then.
    """
    try:
        return None if _keep_room(session, job, failure.plugins) else failure
    except Exception as error:
        return failure_of_plugin(error)


def _keep_room(session: Session, job: Job, plugins: frozenset[str]) -> bool:
    leaving = session.ends.leaving_for(job.reservation)
    placed = _fitting_without(session, job, leaving) if leaving else None
    until = None
    if placed is None and job.is_gang:
        placed, until = _soonest(session, job)
    if placed is None or (job.reservation is not None and job.is_whole and _beside_others(session, job, placed)):
        return False
    with session.statement() as statement:
        if job.reservation is not None:
            seats = [_placement(cycle.pod, node) for cycle, node in placed]
            statement.reserve(job.reservation, seats, waiting=True)
            session.decisions.accept(job, statement)
            return True
        for cycle, node in placed:
            statement.pipeline(cycle, node)
        session.decisions.keep_room(job, statement, plugins, until)
    return True


Placements = list[tuple[Cycle, str]]


def _beside_others(session: Session, job: Job, placed: Placements) -> bool:
    """Whether other reservations have seats on these nodes."""
    seats = (seat for _, node in placed for seat in seats_on(session.snapshot, node))
    own = key_of(job.reservation) if job.reservation is not None else None
    return any((seat.namespace, seat.reservation) != own for seat in seats)


def _soonest(session: Session, job: Job) -> tuple[Placements | None, float | None]:
    """Where a gang fits first, and when: found by halving, because the more pods are gone the more fits."""
    endings = session.ends.soonest_first()[:_LOOK_AHEAD]
    found, until = None, None
    low, high = 1, len(endings)
    while low <= high:
        middle = (low + high) // 2
        placed = _fitting_without(session, job, [one.occupant for one in endings[:middle]])
        if placed is None:
            low = middle + 1
        else:
            found, until, high = placed, endings[middle - 1].at, middle - 1
    return found, until


def _fitting_without(session: Session, job: Job, gone: Sequence[Occupant]) -> Placements | None:
    """Where a job fits once these are gone, if it does."""
    placed: Placements = []
    with session.statement() as trial:
        trial.evict(gone)

        def put(cycle: Cycle, found: Placed) -> Verdict:
            trial.pipeline(cycle, found.node)
            placed.append((cycle, found.node))
            return SUCCESS

        lacking = place_job_pods(session, job, put, until=job.would_be_whole, limits=JobLimits(session, job))
        return placed if lacking is None else None


Until = Callable[[Sequence[Pod]], bool]
"""Whether it will do with these pods placed."""


def place_job_pods(
    session: Session,
    job: Job,
    put: Put,
    seated: Sequence[Pod] = (),
    *,
    until: Until | None = None,
    limits: JobLimits | None = None,
) -> JobFailure | None:
    """Put the pods of a job on nodes until that will do, besides those that have a seat already. A pod that has no node
    may have one once others are placed; those that it cannot do without come before all others until no more fit.
    Without `limits`, whoever asks has to see that none is exceeded."""
    will_do = until or job.may_place
    placed = list(seated)
    if placed and will_do(placed):
        return None
    sitting = {pod.metadata.uid for pod in placed}
    left: list[Pod] = []
    failed: dict[str, tuple[Pod, Unplaced | Verdict]] = {}
    waiting = [pod for pod in job.pods if pod.metadata.uid not in sitting]
    for wave in filter(None, job.split_required(waiting)):
        left += wave
        tried = -1
        while len(left) != tried:
            tried, failed = len(left), {}
            for pod in left:
                cycle = Cycle(pod, session.snapshot, session.now)
                over = limits.why_not_allowed(cycle) if limits is not None else None
                found: Placed | Unplaced | Verdict = over or session.nodes.place_of_job(job, cycle)
                if isinstance(found, Placed):
                    verdict = put(cycle, found)
                    if verdict.code is Code.SUCCESS:
                        placed.append(pod)
                        if limits is not None:
                            limits.take(pod)
                        if will_do(placed):
                            return None
                        continue
                    found = verdict
                failed[pod.metadata.uid] = (pod, found)
            left = [pod for pod, _ in failed.values()]
    return _failure(job, len(placed), list(failed.values()))


# --- why not ----------------------------------------------------------------------------------------------------------


def why_job_inadmissible(session: Session, job: Job) -> JobFailure | None:
    """What refuses a job before any node is asked."""
    return _inadmissible(session, job, JobLimits(session, job))


def _inadmissible(session: Session, job: Job, limits: JobLimits) -> JobFailure | None:
    missing = (
        session.pod_groups.priority_classes.missing_class(job.reservation) if job.reservation is not None else None
    )
    if missing is not None:
        return JobFailure(f"priority class {missing} does not exist", frozenset())
    refused = why_gang_incomplete(job) if job.is_gang else None
    over = limits.why_none_allowed() if refused is None else None
    return JobFailure(join_reasons(over.reasons), frozenset([over.plugin])) if over is not None else refused


def why_gang_incomplete(job: Job) -> JobFailure | None:
    """What refuses a gang that is not all there."""
    lacking = job.why_incomplete
    return JobFailure(lacking, frozenset([GANG])) if lacking is not None else None


def _failure(job: Job, placed: int, failed: Sequence[tuple[Pod, Unplaced | Verdict]]) -> JobFailure:
    if not failed:
        return JobFailure(missing_roles_message(job.name), frozenset([GANG]))
    _, first = failed[0]
    said = first.message if isinstance(first, Unplaced) else join_reasons(first.reasons)
    plugins = _plugins(found for _, found in failed)
    if job.reservation is not None and job.existing > 1:
        needed = max(job.min_available, job.placed + 1)
        if needed > 1:
            said = f"{job.placed + placed} of the {needed} seats that {job.name} needs fit; {said}"
    codes = {found.verdict.code if isinstance(found, Unplaced) else found.code for _, found in failed}
    code = next((one for one in (Code.ERROR, Code.UNSCHEDULABLE) if one in codes), Code.UNRESOLVABLE)
    if job.group is not None:
        if job.placed < job.min_available and job.min_available > 1:
            said = f"{job.placed + placed} of the {job.min_available} pods that pod group {job.name} needs fit; {said}"
        plugins |= {GANG}
    nominated = {
        pod.metadata.uid: found.nominated for pod, found in failed if isinstance(found, Unplaced) and found.nominated
    }
    return JobFailure(said, plugins, code, may_wait=code is Code.UNSCHEDULABLE, nominated=nominated)


def _plugins(found: Iterable[Unplaced | Verdict]) -> frozenset[str]:
    names: set[str] = set()
    for one in found:
        names |= one.plugins if isinstance(one, Unplaced) else {one.plugin}
    return frozenset(names)
