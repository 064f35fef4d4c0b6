"""Reading afresh: nodes, everybody on them and all reservations as they are now, whatever the watches have shown.

A view that is behind looks like a cluster that has changed. Nothing is given up before somebody has looked twice. The
watches go on meanwhile, so only what was known before a list was asked for can be missing in it.
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


async def refresh_snapshot(client: Client, feed: DeschedulerEventHandlers, nodes: Iterable[str]) -> None:
    """Bring the snapshot up to date. Raises ApiError."""
    for name in sorted(set(nodes)):
        await _read_node(client, feed, name)
    snapshot, book = feed.snapshot, feed.snapshot.reservations
    known = {key: book.get(*key) for key in book.names()}
    for one in (await client.list(RESERVATION)).items:
        known.pop(key_of(one), None)
        snapshot.apply_reservation(one)
    for gone in known.values():
        if gone is not None:
            snapshot.remove_reservation(gone)


async def _read_node(client: Client, feed: DeschedulerEventHandlers, name: str) -> None:
    snapshot, node = feed.snapshot, feed.snapshot.node(name)
    try:
        snapshot.apply_node(await client.get(NODE, name))
    except NotFound:
        if node is not None:
            snapshot.remove_node(node)
    known = {
        one.key: one.pod for one in snapshot.occupants(name) if one.ledger == "requested" and one.assumed_at is None
    }
    for pod in (await client.list(POD, fields={"spec.nodeName": name})).items:
        known.pop(pod.metadata.uid, None)
        _show(feed, pod)
    for gone in known.values():
        snapshot.remove_pod(gone)


def _show(feed: DeschedulerEventHandlers, pod: Pod) -> None:
    try:
        feed.snapshot.apply_pod(pod)
    except QuantityError as error:  # the feed leaves it out, too
        log.warning("pod cannot be counted", extra={"pod": pod.metadata.name, "err": str(error)})
