"""The plan: which pods move where, in which order, and what that is expected to bring. It is a value.

Strategies make plans, `replay` checks them, the command line prints and saves them, and the descheduler and
`restow apply` carry them out with PodMigrationJobs. Moves of one wave may happen at the same time; a wave begins when
the one before has ended. In a wave every target is reserved while the pods are still on their old nodes
(ReservationFirst).

There are two written forms: `plan_document` is what programs rely on. `encode_plan` has the UIDs, shape, object
versions and configuration as well, so that `restow apply` can tell what has changed since. `read_plan` reads both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from restow.model.problems import Problem
from restow.model.wire import WireError, convert_document, locate_documents

Measures = dict[str, int | float]
"""Figures about a cluster by name, such as freeNodes."""


class Move(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pod moves from one node to another."""

    order: int
    """The position among all moves of the plan, from 1."""
    wave: int
    """From 1."""
    namespace: str
    pod: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    uid: str = ""
    """The UID of the pod when the plan was made; empty if it is not known."""


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pending pod and the node that has room for it once the moves are done."""

    namespace: str
    pod: str
    node: str


class PlanRefusal(msgspec.Struct, frozen=True, kw_only=True, order=True, forbid_unknown_fields=True):
    """Why a pod does not move or is not placed. With an empty pod, a sentence about many pods or about the plan."""

    namespace: str
    pod: str
    reason: str


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    strategy: str
    objective: str = ""
    moves: tuple[Move, ...] = ()
    places: tuple[Place, ...] = ()
    before: Measures = {}
    after: Measures = {}
    bound: int | float | None = None
    """The objective of no valid plan is larger than this; None if no bound is known."""
    seconds: float = 0.0
    """How long it took to make the plan."""
    refusals: tuple[PlanRefusal, ...] = ()
    shape: dict[str, int] = {}
    """The requests of the pod that the objective `slots` makes room for, in base units."""
    versions: dict[str, str] = {}
    """The resourceVersion of each pod that moves and of each node that is a source or a target, by `version_key`."""
    configuration: str = ""
    """The `configuration_fingerprint` of the configuration that the plan was made with."""

    def waves(self) -> Iterator[tuple[int, list[Move]]]:
        """Each wave with its moves in order."""
        ordered = sorted(self.moves, key=lambda move: (move.wave, move.order))
        for wave, moves in groupby(ordered, key=lambda move: move.wave):
            yield wave, list(moves)


def group_by_reason(refusals: Iterable[PlanRefusal]) -> list[tuple[str, list[str]]]:
    """Each reason with the names of its pods, the most frequent reason first."""
    pods: dict[str, list[str]] = {}
    for refusal in refusals:
        pods.setdefault(refusal.reason, []).extend([f"{refusal.namespace}/{refusal.pod}"] if refusal.pod else [])
    return sorted(pods.items(), key=lambda item: (-len(item[1]), item[0]))


_SAVED_ONLY = ("shape", "versions", "configuration")


def version_key(kind: str, name: str, namespace: str = "") -> str:
    """The key of an object in `Plan.versions`."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def configuration_fingerprint(configuration: Any) -> str:
    """A short digest of a configuration. Equal configurations have the same, in whatever order they are written."""
    encoded = msgspec.json.encode(configuration, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:16]


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as a document for programs."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plan))
    for name in _SAVED_ONLY:
        del document[name]
    for move in document["moves"]:
        del move["uid"]
    return document


def encode_plan(plan: Plan) -> bytes:
    """The plan as the bytes of a file, with all fields."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def read_plan(data: bytes, name: str) -> Plan:
    """Read a saved or printed plan, in JSON or YAML. Raises WireError with every problem and its path."""
    located = locate_documents(data, name)
    if len(located) != 1:
        raise WireError(name, [Problem("", f"expected one plan, found {len(located)} documents")])
    return convert_document(Plan, located[0].document, name)
