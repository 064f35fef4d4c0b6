"""A snapshot in which sessions are run, and what they decide, by the names of pods and reservations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from restow.model.objects import (
    Node,
    Placement,
    Pod,
    PodGroup,
    Queue,
    Reservation,
)
from restow.model.snapshot import Snapshot
from restow.scheduling.decisions import Assign, Decision, HoldSeats, RecordEvent, RefusePod, RefuseReservation
from restow.scheduling.pod_group_cache import PodGroupCache
from restow.scheduling.registry import Profile, read_profile
from restow.scheduling.session import PendingWork, Session
from tests.model.cluster.builders import node

PROFILE = read_profile({})


class SessionCluster:
    """A snapshot and a PodGroup cache; each session changes the snapshot, as in the scheduler."""

    def __init__(self, *items: Node | Pod | Reservation | PodGroup | Queue, profile: Profile = PROFILE) -> None:
        self.snapshot = Snapshot()
        self.pod_groups = PodGroupCache()
        self.profile = profile
        self.now = 0.0
        for item in items:
            self.show(item)

    def show(self, item: Node | Pod | Reservation | PodGroup | Queue) -> None:
        if isinstance(item, Node):
            self.snapshot.apply_node(item)
        elif isinstance(item, Reservation):
            self.snapshot.apply_reservation(item)
        elif isinstance(item, Queue):
            self.snapshot.apply_queue(item)
            self.pod_groups.queues.apply(item)
        elif isinstance(item, PodGroup):
            self.snapshot.apply_group(item)
            self.pod_groups.apply_group(item)
        else:
            self.snapshot.apply_pod(item)
            self.pod_groups.apply_pod(item)

    def session(self, *items: Pod | Reservation, nominated: Sequence[Pod] = (), **options: Any) -> SessionOutcome:
        """Show these pods and reservations, and run a session about them."""
        for item in items:
            self.show(item)
        pods = [item for item in items if isinstance(item, Pod)]
        reservations = [item for item in items if isinstance(item, Reservation)]
        session = Session(
            self.snapshot,
            self.profile.engine,
            self.pod_groups,
            PendingWork(pods, reservations, nominated=nominated),
            now=self.now,
            **{"namespace_share": 1000, **options},
        )
        return SessionOutcome(session.run(self.profile.actions))


class SessionOutcome:
    def __init__(self, decisions: Iterable[Decision]) -> None:
        self.decisions = list(decisions)

    @property
    def held(self) -> dict[str, list[str]]:
        """The nodes on which each reservation got seats, in the order of its seats."""
        return {
            one.reservation.metadata.name: [seat.node_name for seat in _sorted(one.placements)]
            for one in self.decisions
            if isinstance(one, HoldSeats)
        }

    @property
    def waiting_reservations(self) -> list[str]:
        return [one.reservation.metadata.name for one in self.decisions if isinstance(one, HoldSeats) and one.waiting]

    @property
    def refused_reservations(self) -> dict[str, str]:
        return {
            one.reservation.metadata.name: one.message for one in self.decisions if isinstance(one, RefuseReservation)
        }

    @property
    def seats(self) -> dict[str, str]:
        """The seat that each pod was assigned."""
        return {
            one.pod.metadata.name: str(one.seat).removeprefix("default/")
            for one in self.decisions
            if isinstance(one, Assign) and one.seat is not None
        }

    @property
    def nodes(self) -> dict[str, str]:
        return {one.pod.metadata.name: one.node for one in self.decisions if isinstance(one, Assign)}

    @property
    def refused_pods(self) -> dict[str, str]:
        return {one.pod.metadata.name: one.message for one in self.decisions if isinstance(one, RefusePod)}

    @property
    def events(self) -> dict[str, tuple[str, str]]:
        return {
            one.pod.metadata.name: (one.reason, one.message) for one in self.decisions if isinstance(one, RecordEvent)
        }


def _sorted(placements: Iterable[Placement]) -> list[Placement]:
    return sorted(placements, key=lambda one: (one.task, one.index))


def named_nodes(*names: str, **fields: Any) -> list[Node]:
    return [node(name, **fields) for name in names]
