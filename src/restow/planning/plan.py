"""The plan: which pods move where, in which order, and what that is expected to bring. A value that everybody shares.

Strategies make one, `replay` says whether it is valid, the command line prints and saves it, migration carries it out.
Moves of one wave may be under way at the same time; a wave begins when the one before has ended. Inside a wave every
target is held while the pods still are where they were (reservation first).

Two written forms: `printed` is what programs rely on; `saved` has the UIDs, shape, versions and configuration besides,
so that whoever carries it out can tell what changed since. `read_plan` reads both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from restow.model.problems import Problem
from restow.model.wire import WireError, convert, locate_documents

Measures = dict[str, int | float]
"""Figures of a cluster by name, such as freeNodes."""


class Move(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pod goes from one node to another."""

    order: int
    """Its place among all moves of the plan, from 1."""
    wave: int
    """From 1."""
    namespace: str
    pod: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    uid: str = ""
    """Of the pod as it was when the plan was made; empty where it is not known."""


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pending pod that takes room once the moves are done."""

    namespace: str
    pod: str
    node: str


class Refusal(msgspec.Struct, frozen=True, kw_only=True, order=True, forbid_unknown_fields=True):
    """Why a pod does not move, or is not placed; with an empty pod, a sentence about many."""

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
    """The best value of the objective that any plan could reach; None where none is known."""
    seconds: float = 0.0
    """How long planning took."""
    refusals: tuple[Refusal, ...] = ()
    shape: dict[str, int] = {}
    """What the objective `slots` makes room for, in base units."""
    versions: dict[str, str] = {}
    """The resourceVersion of every object the plan rests on, by `version_key`."""
    configuration: str = ""
    """`fingerprint` of the configuration it was made with."""

    def waves(self) -> Iterator[tuple[int, list[Move]]]:
        """Each wave with its moves in order."""
        ordered = sorted(self.moves, key=lambda move: (move.wave, move.order))
        for wave, moves in groupby(ordered, key=lambda move: move.wave):
            yield wave, list(moves)


def group_by_reason(refusals: Iterable[Refusal]) -> list[tuple[str, list[str]]]:
    """Each reason with the pods it is said of, the most frequent first."""
    pods: dict[str, list[str]] = {}
    for one in refusals:
        pods.setdefault(one.reason, []).extend([f"{one.namespace}/{one.pod}"] if one.pod else [])
    return sorted(pods.items(), key=lambda item: (-len(item[1]), item[0]))


_SAVED_ONLY = ("shape", "versions", "configuration")


def version_key(kind: str, name: str, namespace: str = "") -> str:
    """How an object is called in `Plan.versions`."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def configuration_fingerprint(configuration: Any) -> str:
    """A short name for a configuration: equal for equal ones, in whatever order they are written."""
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
    """The plan as a file, everything included."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def read_plan(data: bytes, name: str) -> Plan:
    """Read a plan that was saved or printed, as JSON or YAML. Raises WireError with every problem and its path."""
    located = locate_documents(data, name)
    if len(located) != 1:
        raise WireError(name, [Problem("", f"one plan is expected, {len(located)} documents are there")])
    return convert(Plan, located[0].document, name)
