"""The write auditor stands between the schedulers and the API server: after each of their writes, do the promises hold?

1  no write over-commits a node more than it was: pods and the seats of live reservations fit; seats that wait for
   terminating pods fit once those have left; seats that await pods which are only to leave (`restow.sh/awaits`) fit
   once those have left as well, and take no room from others until then
3  a reservation fails only for a reason that is true at that moment; it succeeds when all of its seats were consumed.
   Until then a seat is kept where it is, unless an edit removed it, or it is lost for such a reason
   no pod is bound into the seat of a migration before the migrating pod leaves
   no pod is bound to a node where pods alone exceed what the node offers: room that is still being left is not free
4  a scheduler writes only the status of reservations: it creates, edits and deletes none (`statuses_only`)
5  no pod is bound into a seat that another pod consumed, nor into one that never was for its owner; the consumption of
a
   seat is recorded for the pod that was bound into it, after the Binding; what is recorded stays recorded

Where the auditor looks away, and why that hides nothing:

- RoomTaken is accepted for every reservation that had to give way within the last second, by the definition (first
  seats that await pods, then reservations with an increase, then those that are not Available, then the newest, until
  the rest fits): no write can depend on what others write meanwhile, so a reason is true of the read before it.
- LimitExceeded is accepted within that second, too, for a reservation with an increase, if all that the live
reservations
  of its namespace ask for, placed or not, is more than its share of the least that all nodes have ever offered
  together: seats that are only decided, and nodes that come and go, need not be known to others.
- A seat may be consumed again if its pod is gone from the API, was never recorded, and was bound by a scheduler that
has
  died since. Objects then remember nothing; the server keeps the history of writes for minutes at most. No room is at
  stake, since no pod is in the seat. A scheduler that lives has to remember, and is blamed.
- Room that others took at the very instant of a write is not held against the write: no scheduler can have seen it.
- The consumption of a seat that an edit removed need not be recorded. A pod on its way into it is bound without naming
  it, if the edit is known by then; if not, the index is still not given to another pod while that pod exists.
- An edit is no write of ours, and is seen when it is seen. Until a status has seen it (observedGeneration), a seat
counts
  for the least that its reservation has asked for since the last status: a scheduler that has not seen the edit cannot
  count on less being held, one that has may. The write that has seen the edit is guarded by its resourceVersion and
  answers for all of it. To know every edit, call `note_specs` after each.
- A lost seat no longer counts on the pods that it awaited: those count again among the pods that stay. That takes no
  room from others, so the horizon "awaited" of its node is not checked after such a write.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, TypeVar

import msgspec

from restow.adapters.memory import MemoryApi
from restow.client.verbs import Client
from restow.model import kinds
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.undo_log import UndoLog
from restow.model.kinds import Kind
from restow.model.objects import Node, Placement, Pod, Reservation
from restow.model.reservations.observed_spec import has_undecided_change, has_undecided_increase, is_ended
from restow.model.reservations.owners import Owners
from restow.model.reservations.reservation_annotations import awaited_pods
from restow.model.reservations.spec import is_expired, seat_count, seats_needed, seats_per_task
from restow.model.reservations.validation import spec_problems
from restow.model.resources import (
    PODS,
    Vector,
    add_vectors,
    parse_amounts,
    pod_requests,
    scale_vector,
    subtract_vectors,
    vector_fits,
    vector_minimum,
)
from restow.ports import Api, Clock, Request, Response
from restow.sim.write_log import is_write, name_of
from tests.control.reservations.expected_room import (
    RoomLeft,
    Shortages,
    Sizes,
    awaited_pods_that_stay,
    awaits_its_migrating_pod,
    held_by_free_seats,
    room_left,
    seat_sizes,
    shortages,
)
from tests.control.reservations.reservation_cluster import open_seats, takes_room

T = TypeVar("T")


class _ImmediateApi:
    """The server without the moment between request and response, in which other writes could come: those would be no
    fault of the scheduler."""

    def __init__(self, api: MemoryApi) -> None:
        self.watch = api.watch
        self._answer = api._answer

    async def call(self, request: Request) -> Response:
        return self._answer(request)


class WriteAuditor:
    """An Api in front of the in-memory server; `faults` has what was wrong."""

    def __init__(
        self, api: MemoryApi, clock: Clock, *, namespace_share: int = 100, statuses_only: bool = False
    ) -> None:
        self.faults: list[str] = []
        self.audits = 0
        self._taken_by_others: dict[str, float] = {}
        """When room of a node was last taken by others; no scheduler can have seen it at that very moment."""
        self.watch = api.watch
        self._api: Api = _ImmediateApi(api)
        self._clock = clock
        self._client = Client(self._api)
        self._namespace_share = namespace_share
        self._statuses_only = statuses_only
        self._offered: Vector | None = None
        """The least that all nodes have ever offered together."""
        self._store = api._state.store
        self._known: dict[str, tuple[int, list[Any]]] = {}
        """The objects of every kind as they were read, with the length of the write log then."""
        self.leader_number = 0
        """Which scheduler in a row leads."""
        self._bound: dict[tuple[str, str], str] = {}
        """The pod that was bound into a seat, by the seat and the UID of its reservation."""
        self._bound_in: dict[tuple[str, str], int] = {}
        """By which leader."""
        self._seat_of: dict[str, tuple[str, str]] = {}
        """The same, by the UID of the pod."""
        self._on: dict[str, str] = {}
        self._gave_way: dict[str, float] = {}
        """When a reservation last had to give way, by its UID: several may fail for one cause."""
        self._beyond_share: dict[str, float] = {}
        """When a reservation last had an increase while its namespace asked for more than its share, by its UID."""
        self._recorded: dict[tuple[str, str, int], str] = {}
        self._asked: dict[str, Sizes] = {}
        """What a seat of each task holds in any case, by the UID of its reservation."""
        self._meant_for: dict[str, set[Owners]] = {}
        """All owners that a reservation ever had, by its UID."""

    async def call(self, request: Request) -> Response:
        ours = is_write(request) and (request.subresource == "binding" or request.resource.plural == "reservations")
        if not ours:
            await asyncio.sleep(0)
            return await self._api.call(request)
        if self._statuses_only and request.subresource not in ("binding", "status"):
            self._note(request, "a scheduler may only write statuses and bindings")
        short = await self.shortages()
        now = _time()
        self._gave_way |= dict.fromkeys(await self._reservations_that_give_way(), now)
        self._beyond_share |= dict.fromkeys(await self._reservations_beyond_share(), now)
        old = await self._reservation(request)
        response = await self._api.call(request)
        self.audits += 1
        new = msgspec.json.decode(response.body, type=Reservation) if old is not None else None
        for (horizon, node, name), missing in (await self.shortages()).items():
            before = max(short.get((horizon, node, name), 0), 0)
            if (
                request.verb == "delete"
                or self._taken_by_others.get(node) == now
                or (horizon == "awaited" and _gave_up(old, new, node))
            ):
                continue
            if missing > before:
                self._note(request, f"{horizon} {node} {name} lacks {missing}, {before} before")
        if request.subresource == "binding":
            await self._check_binding(request)
        elif old is not None and new is not None:
            await self._check_status(request, old, new)
        await asyncio.sleep(0)
        return response

    def room_taken_by_others(self, node: str) -> None:
        """Another component takes room of a node, now."""
        self._taken_by_others[node] = _time()

    def _note(self, request: Request, fault: str) -> None:
        self.faults.append(f"at {self._clock.now():.2f} after {name_of(request)}: {fault}")

    async def _reservation(self, request: Request) -> Reservation | None:
        if request.resource.plural != "reservations" or request.subresource != "status":
            return None
        found = await self._all(kinds.RESERVATION)
        where = (request.namespace, request.name)
        return next((one for one in found if (one.metadata.namespace, one.metadata.name) == where), None)

    async def note_specs(self) -> list[Reservation]:
        """Note the specs of all reservations; to be called after every edit."""
        found = await self._all(kinds.RESERVATION)
        for one in found:
            uid, asked = one.metadata.uid, seat_sizes(one)
            if has_undecided_change(one):
                before = self._asked.get(uid, asked)
                asked = {task: vector_minimum(size, before.get(task, {})) for task, size in asked.items()}
            self._asked[uid] = asked
            self._meant_for.setdefault(uid, set()).add(Owners.of(one.spec.owners or ()))
        return found

    # --- 1 ------------------------------------------------------------------------------------------------------------

    async def shortages(self) -> Shortages:
        """Where more is placed than fits, on every horizon."""
        return shortages(await self._left())

    async def _left(self) -> RoomLeft:
        pods = [one for one in await self._all(kinds.POD) if takes_room(one)]
        return room_left(await self._nodes(), pods, await self.note_specs(), self._asked)

    async def _reservations_that_give_way(self) -> set[str]:
        """The UIDs of reservations that have to give way on over-committed nodes, once terminating pods have left."""
        found = await self.note_specs()
        pods = [one for one in await self._all(kinds.POD) if takes_room(one)]
        held = {one.metadata.uid: held_by_free_seats(one, pods, seat_sizes(one)) for one in found}
        free = {one.metadata.name: dict(parse_amounts(one.status.allocatable)) for one in await self._nodes()}
        staying = [(one.spec.node_name or "", one) for one in pods if one.metadata.deletion_timestamp is None]
        on_it = [(node, pod_requests(pod)) for node, pod in staying]
        for node, request in [*on_it, *(seat for seats in held.values() for seat in seats)]:
            if node in free:
                free[node] = subtract_vectors(free[node], add_vectors(request, {PODS: 1}))
        losers: set[str] = set()
        for place in free:
            for one in sorted(found, key=lambda one: _precedence(one, place, pods), reverse=True):
                there = [add_vectors(request, {PODS: 1}) for node, request in held[one.metadata.uid] if node == place]
                awaited = awaited_pods_that_stay(one, place, pods)
                hoped = free[place]
                for pod in awaited:
                    hoped = add_vectors(hoped, add_vectors(pod_requests(pod), {PODS: 1}))
                lost = any(hoped.get(name, 0) < 0 for request in there for name, amount in request.items() if amount)
                if lost:
                    losers.add(one.metadata.uid)
                if lost or awaited:  # no other reservation loses a seat to one that awaits pods
                    for request in there:
                        free[place] = add_vectors(free[place], request)
        return losers

    async def _reservations_beyond_share(self) -> set[str]:
        """The UIDs of reservations with an increase in namespaces that ask for more than their share."""
        offered: Vector = {}
        for node in await self._nodes():
            offered = add_vectors(offered, parse_amounts(node.status.allocatable))
        least = self._offered = vector_minimum(offered, self._offered or offered)
        share = {name: amount * self._namespace_share // 100 for name, amount in least.items()}
        live = [one for one in await self.note_specs() if not is_ended(one)]
        asked: dict[str, Vector] = {}
        for one in live:
            for task in one.spec.tasks or ():
                size, namespace = add_vectors(seat_sizes(one)[task.name], {PODS: 1}), one.metadata.namespace or ""
                asked[namespace] = add_vectors(asked.get(namespace, {}), scale_vector(size, seat_count(task)))
        over = {namespace for namespace, request in asked.items() if not vector_fits(request, share)}
        return {one.metadata.uid for one in live if one.metadata.namespace in over and has_undecided_increase(one)}

    async def _nodes(self) -> list[Node]:
        return await self._all(kinds.NODE)

    async def _all(self, kind: Kind[T]) -> list[T]:
        """All objects of a kind; read again only if one of that kind was written since."""
        name = kind.qualified_name
        written = self._store.collections[name].log.end
        at, found = self._known.get(name, (-1, []))
        if at != written:
            found = (await self._client.list(kind)).items
            self._known[name] = written, found
        return found

    # --- 3 ------------------------------------------------------------------------------------------------------------

    async def _check_status(self, request: Request, old: Reservation, new: Reservation) -> None:
        self._check_records(request, new)
        await self._check_kept_seats(request, old, new)
        seats, wants = new.status.placements or [], seats_per_task(new)
        held = [one for one in seats if one.index < wants.get(one.task, 0)]
        if new.status.state.phase == "Available" and len(held) < seats_needed(new):
            self._note(request, f"it says that it is Available, with {len(held)} seats of {seats_needed(new)}")
        taken = [one for one in held if one.pod_ref is not None]
        if new.status.state.phase == "Succeeded" and not is_ended(old) and len(taken) < sum(wants.values()):
            self._note(request, f"it says that it has succeeded, with {len(taken)} of {wants} taken")
        if new.status.state.phase != "Failed" or old.status.state.phase == "Failed":
            return
        nodes = {one.node_name for one in old.status.placements or () if one.pod_ref is None}
        there = {one.metadata.name for one in await self._all(kinds.NODE)}
        is_true = {
            "Expired": is_expired(new, self._clock.now()),
            "Invalid": bool(spec_problems(new)),
            "NodeGone": bool(nodes - there),
            "RoomTaken": _time() - self._gave_way.get(new.metadata.uid, -math.inf) <= 1.0,
            "LimitExceeded": _time() - self._beyond_share.get(new.metadata.uid, -math.inf) <= 1.0,
        }
        if not is_true.get(new.status.state.reason or "", False):
            self._note(request, f"it failed: {new.status.state.reason}: {new.status.state.message}")

    async def _check_kept_seats(self, request: Request, old: Reservation, new: Reservation) -> None:
        """A free seat stays where it is, unless it is given up for a reason that is true."""
        now = {(one.task, one.index): one for one in new.status.placements or ()}
        there = {one.metadata.name for one in await self._nodes()}
        losses = (self._gave_way.get(new.metadata.uid, -math.inf), self._beyond_share.get(new.metadata.uid, -math.inf))
        for one in old.status.placements or ():
            found = now.get((one.task, one.index))
            is_lost = one.node_name not in there or _time() - max(losses) <= 1.0
            is_asked_for = one.index < seats_per_task(new).get(one.task, 0)
            is_lost = is_lost or await self._is_unguaranteed(old, new, one)
            if found is None and one.pod_ref is None and is_asked_for and not is_lost:
                self._note(request, f"seat {one.task}/{one.index} was given up for no reason")
            if found is not None and found.pod_ref is None and found.node_name != one.node_name:
                self._note(request, f"seat {one.task}/{one.index} was on {one.node_name}, and is on {found.node_name}")

    async def _is_unguaranteed(self, old: Reservation, new: Reservation, seat: Placement) -> bool:
        """Whether a reservation that has all that it needs gives up a seat in room that pods are leaving."""
        if (old.status.state.phase, new.status.state.phase) != ("Waiting", "Available"):
            return False
        there = [one for one in await self._all(kinds.POD) if one.spec.node_name == seat.node_name]
        return any(one.metadata.deletion_timestamp is not None for one in there)

    # --- 5 ------------------------------------------------------------------------------------------------------------

    async def _check_binding(self, request: Request) -> None:
        body = msgspec.json.decode(request.body)
        uid, annotations = body["metadata"]["uid"], body["metadata"].get("annotations", {})
        where = self._on[uid] = body["target"]["name"]
        seat = (annotations.get("restow.sh/reservation", ""), annotations.get("restow.sh/reservation-uid", ""))
        before, same = self._bound.get(seat, uid), self._bound_in.get(seat) == self.leader_number
        if before != uid and (same or await self._is_remembered(seat[1], before)):
            self._note(request, f"{seat[0]} was taken by {before}, and now by {uid}")
        if seat[0] and not await self._was_meant_for(uid, seat[1]):
            self._note(request, f"{seat[0]} never was for the owner of {uid}")
        pods, of = await self._all(kinds.POD), await self._all(kinds.RESERVATION)
        if any(awaits_its_migrating_pod(one, pods) for one in of if one.metadata.uid == seat[1]):
            self._note(request, f"{uid} was bound into {seat[0]} before the pod leaves that it was made to move")
        if where in await self._nodes_exceeded_by_pods() and self._taken_by_others.get(where) != _time():
            self._note(request, f"{uid} was bound to {where}, where pods exceed what the node offers")
        if seat[0]:
            self._bound[seat], self._bound_in[seat], self._seat_of[uid] = uid, self.leader_number, seat

    async def _nodes_exceeded_by_pods(self) -> list[str]:
        """Nodes with more pods than fit, apart from all reservations."""
        nodes = {one.metadata.name: dict(parse_amounts(one.status.allocatable)) for one in await self._nodes()}
        for pod in await self._all(kinds.POD):
            where = pod.spec.node_name or ""
            if takes_room(pod) and where in nodes:
                nodes[where] = subtract_vectors(nodes[where], add_vectors(pod_requests(pod), {PODS: 1}))
        return [name for name, left in nodes.items() if any(amount < 0 for amount in left.values())]

    async def _is_remembered(self, reservation_uid: str, uid: str) -> bool:
        """Whether the API still shows that a pod consumed a seat: it does not if the pod was gone before a scheduler
        that died could record it."""
        if uid in {consumer for (one, *_), consumer in self._recorded.items() if one == reservation_uid}:
            return True
        return await self._pod(uid) is not None

    async def _was_meant_for(self, uid: str, reservation_uid: str) -> bool:
        owner_chains, pod = await self._owner_chains(), await self._pod(uid)
        return pod is None or any(one.matches(pod, owner_chains) for one in self._meant_for.get(reservation_uid, ()))

    async def _pod(self, uid: str) -> Pod | None:
        return next((one for one in await self._all(kinds.POD) if one.metadata.uid == uid), None)

    async def _owner_chains(self) -> OwnerChains:
        known = OwnerChains(UndoLog())
        for owner in await self._all(kinds.REPLICA_SET):
            known.put(owner.metadata)
        for job in await self._all(kinds.JOB):
            known.put(job.metadata)
        for group in await self._all(kinds.POD_GROUP):
            known.put_group(group)
        return known

    def _check_records(self, request: Request, one: Reservation) -> None:
        found = {(each.task, each.index): each for each in one.status.placements or ()}
        recorded = {key[1:]: uid for key, uid in self._recorded.items() if key[0] == one.metadata.uid}
        for seat, uid in recorded.items():
            reference = found[seat].pod_ref if seat in found else None
            if reference is None or reference.uid != uid:
                self._note(request, f"the consumption of seat {seat} by {uid} was recorded, and is not any more")
        for seat, each in found.items():
            if each.pod_ref is None:
                continue
            uid = each.pod_ref.uid or ""
            if self._recorded.setdefault((one.metadata.uid, *seat), uid) == uid and seat not in recorded:
                name = f"{one.metadata.namespace}/{one.metadata.name}/{each.task}/{each.index}"
                if self._seat_of.get(uid) != (name, one.metadata.uid) or self._on.get(uid) != each.node_name:
                    self._note(
                        request,
                        f"the consumption of seat {seat} by {uid} was recorded, and {uid} was not bound into it",
                    )
        taken = [each.pod_ref.uid for each in found.values() if each.pod_ref is not None]
        if len(taken) != len(set(taken)):
            self._note(request, "a pod consumed two seats")


def _time() -> float:
    """Monotonic seconds."""
    return asyncio.get_running_loop().time()


def _precedence(one: Reservation, node: str, pods: list[Pod]) -> tuple[bool, bool, bool, str, str]:
    """Sorted in reverse, the reservations give way in this order: those that await pods, those with an increase, those
    that are not Available, the newest."""
    hopes = any(pod.spec.node_name == node and pod.metadata.uid in awaited_pods(one) for pod in pods)
    is_promised = one.status.state.phase == "Available"
    return hopes, has_undecided_increase(one), not is_promised, one.metadata.creation_timestamp or "", one.metadata.name


def _gave_up(old: Reservation | None, new: Reservation | None, node: str) -> bool:
    """Whether a reservation has fewer seats on a node than it had, and none that it had not."""
    before, after = (
        {seat for _, seat, where in open_seats(one) if where == node} if one else set() for one in (old, new)
    )
    return after < before
