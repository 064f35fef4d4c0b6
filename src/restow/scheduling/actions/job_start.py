"""Starting a job: all of its pods that must start together, or none.

Goes in: a session and a job. Comes out: whether it started; if not, why. `start_job` uses room that is free now, and
room kept for other pods if the job is over before they need it. `keep_room_for_job` finds room that will be free once
other pods are gone, and keeps it. A gang that has started, or has been bound in part, takes one pod at a time: nothing
of it can be taken back any more, and each pod brings it further.
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
from restow.scheduling.schedule_result import NodeFound, NoNodeFound
from restow.scheduling.seat_checks.seats_on_node import open_seats_on
from restow.scheduling.session import Session
from restow.scheduling.statement import Statement, assign

_LOOK_AHEAD = 512
"""The most pods that are supposed gone to see when a gang fits."""


class JobFailure(msgspec.Struct, frozen=True):
    """Why a job did not start."""

    message: str
    plugins: frozenset[str]
    code: Code = Code.UNSCHEDULABLE
    may_wait: bool = False
    """Whether room that other pods are leaving could help."""
    nominated: Mapping[str, str] = {}
    """Pods for which PostFilter wants room kept, by UID, and the node."""


class JobStarted(msgspec.Struct, frozen=True):
    pods: int


def start_job(session: Session, job: Job) -> JobStarted | JobFailure:
    """Place as many pods as must start together, or one more pod of a gang with pods on nodes; nothing is placed if
    they do not fit."""
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
    """The failure of a job for which a plugin raised: it must not keep other jobs from starting."""
    return JobFailure(describe_plugin_failure(error), frozenset(), Code.ERROR)


def _start(session: Session, job: Job) -> JobStarted | JobFailure:
    limits = JobLimits(session, job)
    refused = _why_inadmissible(session, job, limits)
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


PutOnNode = Callable[[Cycle, NodeFound], Verdict]
"""Puts a pod on the node found for it."""


def _put(statement: Statement, reservation: Reservation | None) -> PutOnNode:
    """How a pod of a job is put on a node: a reserved pod becomes a seat that is held there."""

    def hold(cycle: Cycle, node_found: NodeFound) -> Verdict:
        assert reservation is not None
        statement.reserve(reservation, [_placement(cycle.pod, node_found.node)])
        return SUCCESS

    return hold if reservation is not None else lambda cycle, node_found: statement.allocate(cycle, node_found.node)


def _placement(reserved_pod: Pod, node: str) -> Placement:
    seat = seat_of_reserved_pod(reserved_pod)
    return Placement(task=seat.task, index=seat.index, node_name=node)


def _start_single(session: Session, job: Job) -> JobStarted | JobFailure:
    """A job of one pod needs no statement: an assignment that fails takes itself back."""
    cycle = Cycle(job.pods[0], session.snapshot, session.now)
    result = session.nodes.find_node(cycle)
    if isinstance(result, NoNodeFound):
        return _failure(job, 0, [(cycle.pod, result)])
    assigned = assign(session.engine, cycle, result.node)
    if isinstance(assigned, Verdict):
        return _failure(job, 0, [(cycle.pod, assigned)])
    session.decisions.assign_single(job, assigned)
    return JobStarted(1)


def keep_room_for_job(session: Session, job: Job, failure: JobFailure) -> JobFailure | None:
    """Keep room for a job that other pods are leaving; if that is not enough, or not known, why it still has to wait.

    For a gang, pods whose end is known count as leaving, as few of the soonest as are needed. A reservation holds the
    room from now on, and other pods do not get it. A reservation that has all the seats it needs gets more only on
    nodes where no other reservation has a seat: that seat would have to wait for the room then.
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
    if placed is None or (
        job.reservation is not None and job.is_whole and _is_beside_other_seats(session, job, placed)
    ):
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


def _is_beside_other_seats(session: Session, job: Job, placed: Placements) -> bool:
    """Whether other reservations have seats on these nodes."""
    seats = (seat for _, node in placed for seat in open_seats_on(session.snapshot, node))
    own = key_of(job.reservation) if job.reservation is not None else None
    return any((seat.namespace, seat.reservation) != own for seat in seats)


def _soonest(session: Session, job: Job) -> tuple[Placements | None, float | None]:
    """Where a gang fits first, and when: found by bisection, because the more pods are gone the more fits."""
    ends = session.ends.soonest_first()[:_LOOK_AHEAD]
    best, until = None, None
    low, high = 1, len(ends)
    while low <= high:
        middle = (low + high) // 2
        placed = _fitting_without(session, job, [end.occupant for end in ends[:middle]])
        if placed is None:
            low = middle + 1
        else:
            best, until, high = placed, ends[middle - 1].at, middle - 1
    return best, until


def _fitting_without(session: Session, job: Job, gone: Sequence[Occupant]) -> Placements | None:
    """Where a job fits once these pods are gone, if it does."""
    placed: Placements = []
    with session.statement() as trial:
        trial.evict(gone)

        def put(cycle: Cycle, node_found: NodeFound) -> Verdict:
            trial.pipeline(cycle, node_found.node)
            placed.append((cycle, node_found.node))
            return SUCCESS

        lacking = place_job_pods(session, job, put, enough=job.would_be_whole, limits=JobLimits(session, job))
        return placed if lacking is None else None


IsEnough = Callable[[Sequence[Pod]], bool]
"""Whether it is enough that these pods are placed."""


def place_job_pods(
    session: Session,
    job: Job,
    put: PutOnNode,
    seated: Sequence[Pod] = (),
    *,
    enough: IsEnough | None = None,
    limits: JobLimits | None = None,
) -> JobFailure | None:
    """Put the pods of a job on nodes until these are enough, besides the pods that are seated already.

    The pods of the roles that the gang needs come first. A pod that fits on no node may fit once others are placed
    (affinity), so all are tried again until no more fit. Without `limits`, the caller has to see that none is
    exceeded."""
    is_enough = enough or job.may_place
    placed = list(seated)
    if placed and is_enough(placed):
        return None
    seated_uids = {pod.metadata.uid for pod in placed}
    left: list[Pod] = []
    failed: dict[str, tuple[Pod, NoNodeFound | Verdict]] = {}
    waiting = [pod for pod in job.pods if pod.metadata.uid not in seated_uids]
    for part in filter(None, job.split_required(waiting)):  # the roles that it needs, then the rest
        left += part
        tried = -1
        while len(left) != tried:
            tried, failed = len(left), {}
            for pod in left:
                cycle = Cycle(pod, session.snapshot, session.now)
                over = limits.why_not_allowed(cycle) if limits is not None else None
                result: NodeFound | NoNodeFound | Verdict = over or session.nodes.find_node_for_job(job, cycle)
                if isinstance(result, NodeFound):
                    verdict = put(cycle, result)
                    if verdict.code is Code.SUCCESS:
                        placed.append(pod)
                        if limits is not None:
                            limits.take(pod)
                        if is_enough(placed):
                            return None
                        continue
                    result = verdict
                failed[pod.metadata.uid] = (pod, result)
            left = [pod for pod, _ in failed.values()]
    return _failure(job, len(placed), list(failed.values()))


# --- why not ----------------------------------------------------------------------------------------------------------


def why_job_inadmissible(session: Session, job: Job) -> JobFailure | None:
    """Why a job is refused before any node is looked at; None if it is not."""
    return _why_inadmissible(session, job, JobLimits(session, job))


def _why_inadmissible(session: Session, job: Job, limits: JobLimits) -> JobFailure | None:
    missing = (
        session.pod_groups.priority_classes.missing_class(job.reservation) if job.reservation is not None else None
    )
    if missing is not None:
        return JobFailure(f"priority class {missing} does not exist", frozenset())
    refused = why_gang_incomplete(job) if job.is_gang else None
    over = limits.why_none_allowed() if refused is None else None
    return JobFailure(join_reasons(over.reasons), frozenset([over.plugin])) if over is not None else refused


def why_gang_incomplete(job: Job) -> JobFailure | None:
    """Why a gang is refused of which too few pods exist; None if it is not."""
    why = job.why_incomplete
    return JobFailure(why, frozenset([GANG])) if why is not None else None


def _failure(job: Job, placed: int, failed: Sequence[tuple[Pod, NoNodeFound | Verdict]]) -> JobFailure:
    if not failed:
        return JobFailure(missing_roles_message(job.name), frozenset([GANG]))
    _, first = failed[0]
    message = first.message if isinstance(first, NoNodeFound) else join_reasons(first.reasons)
    plugins = _plugins(result for _, result in failed)
    if job.reservation is not None and job.existing > 1:
        needed = max(job.min_available, job.placed + 1)
        if needed > 1:
            message = f"{job.placed + placed} of the {needed} seats that {job.name} needs fit; {message}"
    codes = {result.verdict.code if isinstance(result, NoNodeFound) else result.code for _, result in failed}
    code = next((candidate for candidate in (Code.ERROR, Code.UNSCHEDULABLE) if candidate in codes), Code.UNRESOLVABLE)
    if job.group is not None:
        if job.placed < job.min_available and job.min_available > 1:
            message = (
                f"{job.placed + placed} of the {job.min_available} pods that pod group {job.name} needs fit; {message}"
            )
        plugins |= {GANG}
    nominated = {
        pod.metadata.uid: result.nominated
        for pod, result in failed
        if isinstance(result, NoNodeFound) and result.nominated
    }
    return JobFailure(message, plugins, code, may_wait=code is Code.UNSCHEDULABLE, nominated=nominated)


def _plugins(results: Iterable[NoNodeFound | Verdict]) -> frozenset[str]:
    names: set[str] = set()
    for result in results:
        names |= result.plugins if isinstance(result, NoNodeFound) else {result.plugin}
    return frozenset(names)
