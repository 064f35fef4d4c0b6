"""Reading afresh: nodes, everybody on them and all reservations as they are now, whatever the watches have shown.

A view that is behind looks like a cluster that has changed. Nothing is given up before somebody has looked twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from restow.client.verbs import Client
from restow.control.descheduler.feed import Feed
from restow.model.kinds import NODE, POD, RESERVATION
from restow.model.objects import Pod
from restow.model.quantity import QuantityError
from restow.ports import NotFound

log = logging.getLogger(__name__)


async def read_afresh(client: Client, feed: Feed, nodes: Iterable[str]) -> None:
    """Bring the snapshot up to date. Raises ApiError."""
    for name in sorted(set(nodes)):
        await _read_node(client, feed, name)
    snapshot = feed.snapshot
    book, there = snapshot.reservations, set[tuple[str, str]]()
    for one in (await client.list(RESERVATION)).items:
        there.add((one.metadata.namespace or "", one.metadata.name))
        snapshot.apply_reservation(one)
    for key in book.names():
        gone = book.get(*key)
        if gone is not None and key not in there:
            snapshot.remove_reservation(gone)


async def _read_node(client: Client, feed: Feed, name: str) -> None:
    snapshot, known = feed.snapshot, feed.snapshot.node(name)
    try:
        snapshot.apply_node(await client.get(NODE, name))
    except NotFound:
        if known is not None:
            snapshot.remove_node(known)
    pods = (await client.list(POD, fields={"spec.nodeName": name})).items
    there = {pod.metadata.uid for pod in pods}
    for pod in pods:
        _show(feed, pod)
    for one in snapshot.occupants(name):
        if one.book == "requested" and one.assumed_at is None and one.key not in there:
            snapshot.remove_pod(one.pod)


def _show(feed: Feed, pod: Pod) -> None:
    try:
        feed.snapshot.apply_pod(pod)
    except QuantityError as error:  # the feed leaves it out, too
        log.warning("pod cannot be counted", extra={"pod": pod.metadata.name, "err": str(error)})
