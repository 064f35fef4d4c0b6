"""What scheduling decides, as values; `control` carries them out in order, and dry runs print them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from restow.model.objects import Placement, Pod, PodGroup, PodGroupStatus, Reservation
from restow.scheduling.framework import Code, Cycle


class Assign(msgspec.Struct, frozen=True):
    """The pod goes to the node: it is assumed there and Reserve and Permit have passed; its binding cycle may begin."""

    cycle: Cycle
    node: str
    waits: Mapping[str, float] = {}
    """Plugins that must allow it first, with the seconds to wait for each at most."""

    @property
    def pod(self) -> Pod:
        return self.cycle.pod


class Nominate(msgspec.Struct, frozen=True):
    """Room that terminating pods are leaving on this node is meant for the pod."""

    pod: Pod
    node: str


class Refuse(msgspec.Struct, frozen=True):
    """The pod has no node now. The message is what condition and event say."""

    pod: Pod
    code: Code
    message: str
    plugins: frozenset[str] = frozenset()
    """Who refused: the ones whose news may change it."""


class Evict(msgspec.Struct, frozen=True):
    pod: Pod
    reason: str


class Hold(msgspec.Struct, frozen=True):
    """The reservation gets these placements; they are assumed."""

    reservation: Reservation
    placements: tuple[Placement, ...]


class Release(msgspec.Struct, frozen=True):
    """The reservation's seats are given up."""

    reservation: Reservation


class SetGroup(msgspec.Struct, frozen=True):
    """The status a PodGroup is to have."""

    group: PodGroup
    status: PodGroupStatus


Decision = Assign | Nominate | Refuse | Evict | Hold | Release | SetGroup
