"""The status of a queue, as it should be.

Goes in: a queue with the status it has, what is locked for it, its jobs, what its pods take. Comes out: its status.

    state         Open where nobody says otherwise. Whoever closes a queue writes Closed or Closing: it is Closing as
                  long as jobs of it are not over, then Closed
    reservation   the locked nodes and what is idle on them; none without a guarantee
    accepted      the guarantee as it was written when it was accepted: who asks for more is a newcomer
    conditions    GuaranteeSatisfied, True or False, and Rejected, each with a sentence; none without a guarantee. Those
                  of others stay
"""

from __future__ import annotations

from typing import Final

import msgspec

from restow.model.guarantees import REJECTED_CONDITION
from restow.model.objects import Condition, Queue, QueueReservation, QueueState, QueueStatus
from restow.model.pods import condition
from restow.model.queues import is_closed
from restow.model.resources import Vector, quantities
from restow.model.times import format_time
from restow.queues.job_counts import JobCounts
from restow.queues.node_locks import GuaranteeState, QueueLock

SATISFIED_CONDITION: Final = "GuaranteeSatisfied"
_ACCEPTED: Final = "Accepted"


class QueueObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of a queue."""

    lock: QueueLock | None = None
    """None where nothing is asked for, and nothing was."""
    job_counts: JobCounts = JobCounts()
    allocated: Vector = {}
    waiting_message: str = ""
    """What its guarantee waits for, beside room."""
    now: float


def next_queue_status(queue: Queue, facts: QueueObservation) -> QueueStatus:
    """The status of a queue; equal to what it has if nothing is to be written."""
    lock, counts = facts.lock, facts.job_counts
    accepted = lock is not None and lock.is_accepted
    return QueueStatus(
        state=_state(queue, counts),
        pending=counts.pending,
        inqueue=counts.inqueue,
        running=counts.running,
        unknown=counts.unknown,
        completed=counts.completed,
        reservation=QueueReservation(nodes=list(lock.nodes), resource={**quantities(lock.idle)})
        if lock is not None and accepted
        else None,
        accepted_guarantee=queue.spec.guarantee if accepted else None,
        allocated={**quantities({name: number for name, number in facts.allocated.items() if number})},
        conditions=_conditions(queue, facts) or None,
    )


def _state(queue: Queue, counts: JobCounts) -> str:
    if is_closed(queue):
        return QueueState.CLOSING if counts.unfinished else QueueState.CLOSED
    return queue.status.state or QueueState.OPEN


def _conditions(queue: Queue, facts: QueueObservation) -> list[Condition]:
    others = [one for one in queue.status.conditions or () if one.type not in (SATISFIED_CONDITION, REJECTED_CONDITION)]
    lock = facts.lock
    if lock is None or lock.state is GuaranteeState.RELEASED:
        return others
    rejected = lock.state is GuaranteeState.REJECTED
    told = "; ".join(filter(None, (lock.message, facts.waiting_message)))
    satisfied = lock.state is GuaranteeState.SATISFIED
    reason = lock.reason if not rejected else REJECTED_CONDITION
    return [
        *others,
        _condition(queue, SATISFIED_CONDITION, satisfied, reason, told, facts.now),
        _condition(
            queue,
            REJECTED_CONDITION,
            rejected,
            lock.reason if rejected else _ACCEPTED,
            lock.message if rejected else "no limit and no ceiling forbids it",
            facts.now,
        ),
    ]


def _condition(queue: Queue, kind: str, holds: bool, reason: str, message: str, now: float) -> Condition:
    status = "True" if holds else "False"
    old = condition(queue.status.conditions, kind)
    since = old.last_transition_time if old is not None and old.status == status else None
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        observed_generation=queue.metadata.generation,
        last_transition_time=since or format_time(now),
    )
