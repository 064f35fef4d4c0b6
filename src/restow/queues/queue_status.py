"""The status of a queue, as it should be.

Goes in: a queue with its present status, what is locked for it, its jobs, and what its pods use. Comes out: its status.

    state         Open by default. To close a queue, people write Closed or Closing: it is Closing until its jobs are
                  over, then Closed
    reservation   the locked nodes and what is idle on them; none without a guarantee
    accepted      the guarantee as it was written when it was accepted: a queue that asks for more is a newcomer
    conditions    GuaranteeSatisfied and Rejected, each True or False with a message; none without a guarantee.
                  Conditions of other controllers stay
"""

from __future__ import annotations

from typing import Final

import msgspec

from restow.model.guarantees import REJECTED_CONDITION
from restow.model.objects import Condition, Queue, QueueReservation, QueueState, QueueStatus
from restow.model.pods import find_condition
from restow.model.queues import is_closed
from restow.model.resources import Vector, format_quantities
from restow.model.times import format_time
from restow.queues.job_counts import JobCounts
from restow.queues.node_locks import GuaranteeDecision, GuaranteeState

SATISFIED_CONDITION: Final = "GuaranteeSatisfied"
_ACCEPTED_REASON: Final = "Accepted"


class QueueObservation(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of a queue now."""

    lock: GuaranteeDecision | None = None
    """None if the queue has no guarantee and had none."""
    job_counts: JobCounts = JobCounts()
    allocated: Vector = {}
    waiting_message: str = ""
    """Which pods have to leave before the guarantee is satisfied."""
    now: float


def next_queue_status(queue: Queue, observation: QueueObservation) -> QueueStatus:
    """The status of a queue; equal to the present one if nothing has to be written."""
    lock, counts = observation.lock, observation.job_counts
    is_accepted = lock is not None and lock.is_accepted
    return QueueStatus(
        state=_next_state(queue, counts),
        pending=counts.pending,
        inqueue=counts.inqueue,
        running=counts.running,
        unknown=counts.unknown,
        completed=counts.completed,
        reservation=QueueReservation(nodes=list(lock.nodes), resource={**format_quantities(lock.idle)})
        if lock is not None and is_accepted
        else None,
        accepted_guarantee=queue.spec.guarantee if is_accepted else None,
        allocated={**format_quantities({name: amount for name, amount in observation.allocated.items() if amount})},
        conditions=_next_conditions(queue, observation) or None,
    )


def _next_state(queue: Queue, counts: JobCounts) -> str:
    if is_closed(queue):
        return QueueState.CLOSING if counts.unfinished else QueueState.CLOSED
    return queue.status.state or QueueState.OPEN


def _next_conditions(queue: Queue, observation: QueueObservation) -> list[Condition]:
    own_types = (SATISFIED_CONDITION, REJECTED_CONDITION)
    of_others = [present for present in queue.status.conditions or () if present.type not in own_types]
    lock, now = observation.lock, observation.now
    if lock is None or lock.state is GuaranteeState.RELEASED:
        return of_others
    is_rejected, is_satisfied = lock.state is GuaranteeState.REJECTED, lock.state is GuaranteeState.SATISFIED
    message = "; ".join(filter(None, (lock.message, observation.waiting_message)))
    if is_rejected:
        rejected = _condition(queue, REJECTED_CONDITION, lock.reason, lock.message, now, is_true=True)
    else:
        accepted = "the guarantee is within all limits and ceilings"
        rejected = _condition(queue, REJECTED_CONDITION, _ACCEPTED_REASON, accepted, now, is_true=False)
    reason = REJECTED_CONDITION if is_rejected else lock.reason
    return [
        *of_others,
        _condition(queue, SATISFIED_CONDITION, reason, message, now, is_true=is_satisfied),
        rejected,
    ]


def _condition(queue: Queue, type: str, reason: str, message: str, now: float, *, is_true: bool) -> Condition:
    status = "True" if is_true else "False"
    present = find_condition(queue.status.conditions, type)
    since = present.last_transition_time if present is not None and present.status == status else None
    return Condition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        observed_generation=queue.metadata.generation,
        last_transition_time=since or format_time(now),
    )
