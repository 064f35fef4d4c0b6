"""Live reads: nodes, the pods on them and all reservations, read from the API server and put into the snapshot.

A snapshot that is behind its watches looks like a cluster that has changed. So before a plan is repaired or given up,
the objects it is about are read once more, and the plan is checked again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from restow.client.verbs import Client
from restow.control.descheduler.event_handlers import DeschedulerEventHandlers
from restow.model.kinds import NODE, POD, RESERVATION
from restow.model.object_key import key_of
from restow.model.objects import Pod
from restow.model.quantity import QuantityError
from restow.ports import NotFound

log = logging.getLogger(__name__)


async def refresh_snapshot(client: Client, handlers: DeschedulerEventHandlers, nodes: Iterable[str]) -> None:
    """Bring the snapshot up to date for these nodes and for all reservations. Raises ApiError."""
    for name in sorted(set(nodes)):
        await _refresh_node(client, handlers, name)
    snapshot, index = handlers.snapshot, handlers.snapshot.reservations
    # What was known before the list was requested, and is not in the list, has been deleted. The watches go on
    # meanwhile: what they show only after the request may be too new for the list.
    missing = {key: index.get(*key) for key in index.names()}
    for reservation in (await client.list(RESERVATION)).items:
        missing.pop(key_of(reservation), None)
        snapshot.apply_reservation(reservation)
    for deleted in missing.values():
        if deleted is not None:
            snapshot.remove_reservation(deleted)


async def _refresh_node(client: Client, handlers: DeschedulerEventHandlers, name: str) -> None:
    snapshot, node = handlers.snapshot, handlers.snapshot.node(name)
    try:
        snapshot.apply_node(await client.get(NODE, name))
    except NotFound:
        if node is not None:
            snapshot.remove_node(node)
    missing = {
        occupant.key: occupant.pod
        for occupant in snapshot.occupants(name)
        if occupant.ledger == "requested" and occupant.assumed_at is None
    }
    for pod in (await client.list(POD, fields={"spec.nodeName": name})).items:
        missing.pop(pod.metadata.uid, None)
        _apply_pod(handlers, pod)
    for deleted in missing.values():
        handlers.feeder.remove_pod(deleted)


def _apply_pod(handlers: DeschedulerEventHandlers, pod: Pod) -> None:
    try:
        handlers.feeder.put_pod(pod)
    except QuantityError as error:  # as when the watch shows it: a pod that cannot be read is not counted
        log.warning("pod cannot be counted", extra={"pod": pod.metadata.name, "err": str(error)})
