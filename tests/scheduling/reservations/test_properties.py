"""Properties that hold in any order in which reservations and pods are shown, placed, assigned and forgotten."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from restow.model.objects import (
    ObjectReference,
    Placement,
    Pod,
    Reservation,
    ReservationOwner,
    ReservationState,
    SelectorSpec,
)
from restow.model.reservations.owners import Owners
from restow.model.reservations.reservation_annotations import RESERVATION_ANNOTATION
from restow.scheduling.actions.last_seat import LastSeat
from restow.scheduling.decisions import Assign, Decision, HoldSeats
from restow.scheduling.framework import Cycle
from restow.scheduling.statement import Statement
from tests.model.cluster.builders import node, pod
from tests.model.cluster.snapshot_values import all_values
from tests.model.reservations.builders import pod_group, task, web_pod, web_reservation
from tests.scheduling.reservations.session_cluster import SessionCluster

NODES = ("n1", "n2", "n3")
APPS = ("web", "db")
SIZES = ("1", "2", "3")
OFFERS = {"cpu": "6", "pods": "8"}

sizes = st.sampled_from(SIZES)
apps = st.sampled_from(APPS)


def for_app(app: str) -> dict[str, Any]:
    return {"owners": [ReservationOwner(label_selector=SelectorSpec(match_labels={"app": app}))]}


def for_app_or_pod(name: str) -> dict[str, Any]:
    return for_app(name) if name in APPS else {"owners": [ReservationOwner(object=ObjectReference(name=name))]}


class Cluster(RuleBasedStateMachine):
    """A scheduler and an API server in one: decisions are carried out at once, later, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = SessionCluster(*(node(name, OFFERS) for name in NODES), pod_group("g", 2))
        self.numbers = count(1)
        self.reservations: dict[str, Reservation] = {}
        self.pending: dict[str, Pod] = {}
        self.assigned: dict[str, Assign] = {}
        self.bound: dict[str, Pod] = {}
        self.consumers: dict[tuple[str, str, int], str] = {}

    # --- events -------------------------------------------------------------------------------------------------------

    @rule(app=apps, size=sizes, replicas=st.integers(1, 3), least=st.integers(1, 3), fits=st.booleans())
    def reserve(self, app: str, size: str, replicas: int, least: int, fits: bool) -> None:
        name = f"r{next(self.numbers)}"
        asked = web_reservation(
            name,
            task(replicas, {"cpu": size}, labels={"app": app}),
            min_available=min(least, replicas),
            match_policy="Fits" if fits else "Template",
            created=f"2026-01-01T00:00:{len(self.reservations):02d}Z",
            version=next(self.numbers),
            **for_app(app),
        )
        self.reservations[name] = asked
        self.cluster.show(asked)

    @rule(app=apps, size=sizes, together=st.booleans(), data=st.data())
    def create(self, app: str, size: str, together: bool, data: st.DataObject) -> None:
        uses = data.draw(st.sampled_from([None, *self.reservations]))
        one = web_pod(
            f"p{next(self.numbers)}",
            {"cpu": size},
            labels={"app": app},
            group="g" if together else None,
            uses=uses if not together else None,
            version=next(self.numbers),
        )
        self.pending[one.metadata.uid] = one
        self.cluster.show(one)

    @rule(where=st.sampled_from(NODES), size=sizes)
    def forge(self, where: str, size: str) -> None:
        """The annotation of a pending pod without an owner names a seat."""
        claim = next((f"default/{name}/t/0" for name in self.reservations), "default/r/t/0")
        one = pod(f"f{next(self.numbers)}", {"cpu": size}, seat=claim, version=next(self.numbers))
        self.pending[one.metadata.uid] = one

    # --- what is decided ----------------------------------------------------------------------------------------------

    @rule()
    def decide(self) -> None:
        before = self.room()
        decisions = self.cluster.session(*self.pending.values(), *self.unfinished()).decisions
        self.carry_out(decisions)
        assert all(free >= 0 for free in self.room().values()), before

    def unfinished(self) -> list[Reservation]:
        return [one for one in self.reservations.values() if one.status.state.phase not in ("Succeeded", "Failed")]

    def carry_out(self, decisions: list[Decision]) -> None:
        taken = Counter(one.seat for one in decisions if isinstance(one, Assign) and one.seat)
        assert all(times == 1 for times in taken.values())
        for one in decisions:
            if isinstance(one, Assign):
                self.assigned[one.pod.metadata.uid] = one
                del self.pending[one.pod.metadata.uid]
                if one.seat is not None:
                    place = (one.seat.reservation, one.seat.task, one.seat.index)
                    assert place not in self.consumers, "a consumed seat was given out again"
                    owners = Owners.of(self.reservations[one.seat.reservation].spec.owners or ())
                    assert owners.matches(one.pod, self.cluster.snapshot.owner_chains), (
                        "a seat was given to another pod"
                    )
            elif isinstance(one, HoldSeats):
                self.hold(one)

    def hold(self, hold: HoldSeats) -> None:
        known = self.reservations[hold.reservation.metadata.name]
        placements = [*(known.status.placements or ()), *hold.placements]
        assert len(placements) >= (known.spec.min_available or 1)
        self.write(known, placements, "Available")

    def write(self, known: Reservation, placements: list[Placement], phase: str) -> None:
        status = replace(known.status, placements=placements, state=ReservationState(phase=phase))
        metadata = replace(known.metadata, resource_version=str(next(self.numbers)))
        self.reservations[known.metadata.name] = replace(known, metadata=metadata, status=status)
        self.cluster.show(self.reservations[known.metadata.name])

    # --- what becomes of it -------------------------------------------------------------------------------------------

    @precondition(lambda self: self.assigned)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.assigned)))
        assign = self.assigned.pop(uid)
        annotations = dict(assign.pod.metadata.annotations or {})
        if assign.seat is not None:
            annotations[RESERVATION_ANNOTATION] = str(assign.seat)
        metadata = replace(assign.pod.metadata, annotations=annotations, resource_version=str(next(self.numbers)))
        self.bound[uid] = replace(assign.pod, metadata=metadata, spec=replace(assign.pod.spec, node_name=assign.node))
        self.cluster.show(self.bound[uid])
        if assign.seat is not None:
            self.mark(assign)

    def mark(self, assign: Assign) -> None:
        """Bind first, then mark."""
        seat = assign.seat
        assert seat is not None
        known = self.reservations.get(seat.reservation)
        self.consumers[seat.reservation, seat.task, seat.index] = assign.pod.metadata.uid
        if known is None:
            return
        reference = ObjectReference(kind="Pod", name=assign.pod.metadata.name, uid=assign.pod.metadata.uid)
        placements = [
            replace(one, pod_ref=reference) if (one.task, one.index) == (seat.task, seat.index) else one
            for one in known.status.placements or ()
        ]
        self.write(known, placements, known.status.state.phase or "Available")

    @precondition(lambda self: self.assigned)
    @rule(data=st.data())
    def fail_to_bind(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.assigned)))
        assign = self.assigned.pop(uid)
        self.cluster.profile.engine.unreserve(assign.cycle, assign.node)
        assert self.cluster.snapshot.forget(assign.pod)
        self.cluster.pod_groups.forget(assign.pod)
        self.pending[uid] = assign.pod

    @precondition(lambda self: self.bound)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.bound)))
        gone = self.bound.pop(uid)
        metadata = replace(gone.metadata, resource_version=str(next(self.numbers)))
        self.cluster.snapshot.remove_pod(replace(gone, metadata=metadata))
        self.cluster.pod_groups.remove_pod(gone)

    @precondition(lambda self: self.reservations)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.reservations)))
        gone = self.reservations.pop(name)
        metadata = replace(gone.metadata, resource_version=str(next(self.numbers)))
        self.cluster.snapshot.remove_reservation(replace(gone, metadata=metadata))

    @rule()
    def think_better_of_it(self) -> None:
        """Whatever a statement did to seats, discarding it leaves no trace."""
        snapshot, engine = self.cluster.snapshot, self.cluster.profile.engine
        for one in self.pending.values():  # what is interned stays
            snapshot.class_of(one)
        before = all_values(snapshot)
        with Statement(snapshot, engine, 0.0) as statement:
            for one in self.pending.values():
                for reservation, seat in list(snapshot.reservations.with_free_seat(one)):
                    if statement.occupy(Cycle(one, snapshot, 0.0), seat).reasons == ():
                        break
                    assert reservation.metadata.name == seat.name.reservation
        assert all_values(snapshot) == before

    # --- what always holds --------------------------------------------------------------------------------------------

    def room(self) -> dict[tuple[str, str], int]:
        room, rows = self.cluster.snapshot.room, self.cluster.snapshot.rows
        return {
            (name, room.resources.names[column]): int(cells[rows.find_row(name) or 0])
            for name in NODES
            for column, cells in enumerate(room.free)
        }

    @invariant()
    def nothing_is_overcommitted(self) -> None:
        assert all(free >= 0 for free in self.room().values())

    @invariant()
    def no_consumed_seat_is_vacant(self) -> None:
        book = self.cluster.snapshot.reservations
        for reservation, name, index in self.consumers:
            vacant = {(seat.name.task, seat.name.index) for seat in book.free_seats("default", reservation)}
            assert (name, index) not in vacant


Cluster.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestCluster = Cluster.TestCase


# --- the same cluster, the same decisions -----------------------------------------------------------------------------

items = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), apps, sizes, st.integers(1, 1)),
        st.tuples(st.just("reservation"), apps, sizes, st.integers(1, 2)),
    ),
    min_size=1,
    max_size=8,
)


def build(things: list[tuple[str, str, str, int]]) -> list[Pod | Reservation]:
    made: list[Pod | Reservation] = []
    for number, (kind, app, size, replicas) in enumerate(things):
        if kind == "pod":
            made.append(web_pod(f"p{number}", {"cpu": size}, labels={"app": app}))
        else:
            seats = task(replicas, {"cpu": size}, labels={"app": app})
            made.append(web_reservation(f"r{number}", seats, match_policy="Fits", **for_app(app)))
    return made


def decided(things: list[Pod | Reservation], at: dict[str, str]) -> list[str]:
    cluster = SessionCluster(*(node(name, OFFERS) for name in NODES))
    held = [
        replace(web_reservation(f"held-{name}", task(1, {"cpu": "2"}), at={0: name}, **for_app(app)))
        for name, app in at.items()
    ]
    for one in held:
        cluster.show(one)
    outcome = cluster.session(*things)
    return sorted(
        [f"{name} on {where}" for name, where in outcome.nodes.items()]
        + [f"{name} in {seat}" for name, seat in outcome.seats.items()]
        + [f"{name} held {where}" for name, where in outcome.held.items()]
        + [f"{name}: {why}" for name, why in {**outcome.refused_pods, **outcome.refused_reservations}.items()]
    )


@settings(deadline=None, max_examples=60)
@given(items, st.dictionaries(st.sampled_from(NODES), apps), st.randoms(use_true_random=False))
def test_decisions_do_not_depend_on_the_order_of_events(
    things: list[tuple[str, str, str, int]], at: dict[str, str], random: Random
) -> None:
    made = build(things)
    told = list(made)
    random.shuffle(told)
    assert decided(made, at) == decided(told, at)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*APPS, "p0", "p1"]), sizes, st.integers(0, 2), st.sampled_from(["Fits", "Template"])
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.tuples(apps, sizes), min_size=2, max_size=10),
)
def test_pods_in_one_session_get_the_seats_they_would_get_one_by_one(
    held: list[tuple[str, str, int, str]], swarm: list[tuple[str, str]]
) -> None:
    def seats(follows: bool) -> dict[str, str]:
        cluster = SessionCluster(*(node(name, {"cpu": "20", "pods": "20"}) for name in NODES))
        for number, (owner, size, migrating, policy) in enumerate(held):
            seat = task(2, {"cpu": size}, labels={"app": owner})
            placed = {0: NODES[number % 3], 1: NODES[(number + 1) % 3]}
            terms: dict[str, Any] = {"match_policy": policy, "migrating": f"uid-m{migrating}" if migrating else None}
            cluster.show(web_reservation(f"r{number}", seat, at=placed, **terms, **for_app_or_pod(owner)))
        pods = [web_pod(f"p{number}", {"cpu": size}, labels={"app": app}) for number, (app, size) in enumerate(swarm)]
        with pytest.MonkeyPatch.context() as patched:
            if not follows:
                patched.setattr(LastSeat, "next_seat", lambda self, pod: None)
            return cluster.session(*pods).seats

    assert seats(follows=True) == seats(follows=False)
