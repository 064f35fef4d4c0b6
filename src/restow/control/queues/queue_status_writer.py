"""Writes the status of queues, and records Events for what has changed in it.

Goes in: a queue as it was read, and its status as it should be. Comes out: one patch, which holds only for the version
that was read. A node is never shown as locked for two queues: a queue gets a node only after the status of the queue
that had it shows that it is free.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import msgspec

from restow.client.event_recorder import EventRecorder, about
from restow.client.mutation_cache import MutationCache
from restow.client.verbs import Client
from restow.control.queues.pruned_status_fields import PrunedStatusFields
from restow.model.guarantees import REJECTED_CONDITION, is_rejected
from restow.model.kinds import QUEUE
from restow.model.objects import Condition, Document, ObjectReference, Queue, QueueStatus
from restow.model.pods import find_condition
from restow.model.wire import WireError
from restow.ports import ApiError, Clock, NotFound, OutcomeUnknown
from restow.queues.node_locks import locks_in_status
from restow.queues.queue_status import SATISFIED_CONDITION

log = logging.getLogger(__name__)

_STATUS_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(QueueStatus))


class QueueStatusWriter:
    def __init__(self, client: Client, clock: Clock, recorder: EventRecorder, queues: MutationCache[Queue]) -> None:
        self._client = client
        self._clock = clock
        self._recorder = recorder
        self._queues = queues
        self._pruned = PrunedStatusFields()
        self._reported_reasons: dict[str, str | None] = {}
        """By queue: the last reason of which an Event was recorded. Where the API server prunes conditions, the queue
        itself does not show it."""
        self._unanswered: set[str] = set()
        """Queues for which the last patch was not answered: it may or may not have been applied."""

    async def resolve_unanswered(self) -> bool:
        """Read the queues for which the last patch was not answered. Until that has succeeded, it is not known which
        nodes are shown as locked, and nothing may be decided: then False is returned."""
        for name in sorted(self._unanswered):
            try:
                self._queues.record_write(await self._client.get(QUEUE, name))
            except NotFound:
                pass
            except (ApiError, WireError) as error:
                log.info("queue status still unknown", extra={"queue": name, "err": str(error)})
                return False
            self._unanswered.discard(name)
        return True

    async def write(self, queue: Queue, status: QueueStatus) -> bool:
        """Write a status if the queue shows another one. Returns False if that should be tried again soon."""
        name = queue.metadata.name
        if self._pruned.is_up_to_date(name, status, queue.status, self._clock.now()):
            return True
        nodes = status.reservation.nodes if status.reservation is not None else None
        if not self._nodes_of_others(name).isdisjoint(nodes or ()):
            return False  # the patch that frees the node has failed or is not known to have succeeded
        try:
            answer = await self._client.patch(
                QUEUE,
                name,
                {"status": _merge_patch(queue.status, status)},
                subresource="status",
                resource_version=queue.metadata.resource_version,
            )
        except NotFound:
            return True
        except (ApiError, WireError) as error:
            log.info("queue status not written", extra={"queue": name, "err": str(error)})
            if isinstance(error, OutcomeUnknown | WireError):
                self._unanswered.add(name)
            return False
        self._queues.record_write(answer)
        self._record_lock_event(queue, answer)
        self._record_guarantee_event(queue, answer, status)
        self._record_pruned_fields(answer, status)
        return True

    def forget_all_but(self, names: Collection[str]) -> None:
        """Forget the queues that are gone."""
        self._pruned.forget_all_but(names)
        self._reported_reasons = {name: reason for name, reason in self._reported_reasons.items() if name in names}

    def _nodes_of_others(self, name: str) -> set[str]:
        """The nodes that are shown as locked for other queues."""
        locks = locks_in_status(self._queues)
        return {node for other, nodes in locks.items() if other != name for node in nodes}

    # --- events -------------------------------------------------------------------------------------------------------

    def _record_lock_event(self, before: Queue, after: Queue) -> None:
        name = after.metadata.name
        old, new = (locks_in_status([queue]).get(name, ()) for queue in (before, after))
        locked, released = sorted({*new} - {*old}), sorted({*old} - {*new})
        if not locked and not released:
            return
        changes = (("locked", locked), ("released", released))
        parts = [f"{verb} {', '.join(nodes)}" for verb, nodes in changes if nodes]
        message = f"{'; '.join(parts)}; {len(new)} {'node is' if len(new) == 1 else 'nodes are'} locked"
        self._recorder.record(_queue_reference(after), "NodesLocked" if locked else "NodesReleased", message)
        log.info("locks changed", extra={"queue": name, "locked": locked, "released": released})

    def _record_guarantee_event(self, before: Queue, after: Queue, status: QueueStatus) -> None:
        """An Event when the guarantee is satisfied, unsatisfied or rejected, and was not before."""
        name = after.metadata.name
        # The condition of the status that was written: the one that was answered may lack it, if it was pruned.
        old, new = _guarantee_condition(before), _guarantee_condition(msgspec.structs.replace(after, status=status))
        old_reason = old.reason if old is not None else self._reported_reasons.get(name)
        self._reported_reasons[name] = new.reason if new is not None else None
        if new is None or old_reason == new.reason:
            return
        is_satisfied = new.status == "True" and new.type == SATISFIED_CONDITION
        reason = new.reason if new.type == REJECTED_CONDITION else f"Guarantee{new.reason}"
        self._recorder.record(
            _queue_reference(after), reason or "", new.message or "", type="Normal" if is_satisfied else "Warning"
        )

    def _record_pruned_fields(self, after: Queue, status: QueueStatus) -> None:
        name = after.metadata.name
        pruned = self._pruned.note_answer(name, status, after.status, self._clock.now())
        if pruned:
            fields = ", ".join(f"status.{field}" for field in pruned)
            message = f"the definition of Queue in this cluster does not keep {fields}"
            self._recorder.record(_queue_reference(after), "StatusNotKept", message, type="Warning")
            log.warning("status fields pruned", extra={"queue": name, "fields": pruned})


def _queue_reference(queue: Queue) -> ObjectReference:
    return about(QUEUE, queue.metadata)


def _guarantee_condition(queue: Queue) -> Condition | None:
    """The condition that says how the guarantee stands."""
    return find_condition(queue.status.conditions, REJECTED_CONDITION if is_rejected(queue) else SATISFIED_CONDITION)


def _merge_patch(before: QueueStatus, after: QueueStatus) -> Document:
    """A JSON merge patch from one status to another. In such a patch, null deletes a member: so every field and key
    that is no longer set is given as null."""
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    changes: Document = dict.fromkeys(_STATUS_FIELDS) | new
    return {name: _merged_value(old.get(name), value) for name, value in changes.items()}


def _merged_value(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return dict.fromkeys(old) | {name: _merged_value(old.get(name), value) for name, value in new.items()}
