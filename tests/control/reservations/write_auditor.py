"""An auditor between the schedulers and the API server: after every write of theirs, do the promises still hold?

1  no write makes any node more over-committed than it was: pods and the seats of live reservations fit; seats that
   wait for pods to leave fit once they have left; seats that await pods which only are to leave (`restow.sh/awaits`)
   fit once those have left as well, and take nothing from anybody else until then
3  a reservation fails for a reason that is true at that moment, and only for one; it has succeeded when all of its
   seats were taken. Until then a seat is kept where it is, unless it is asked for no more, or lost for such a reason
   nobody is bound into a seat that was made to move a pod before that one leaves
   nobody is bound where pods alone are more than the node offers: onto room that somebody has yet to leave
4  whatever a scheduler writes about a reservation is its status: it makes, changes and deletes none (`statuses_only`)
5  nobody is bound into a seat that somebody was bound into before, nor into one that never was for its owner; a seat is
   marked for the pod that was bound into it, after that; what is marked stays marked

Where it looks away, and why that hides nothing:

- RoomTaken is believed of whoever had to go within the last second, by the definition (who only hopes, who asks for
  more than it has, who is not Available, then the newest, until the rest fits): no write can depend on what others
  write meanwhile, so a reason is true of the read before it.
- LimitExceeded is believed within that second, too, of whoever asks for more than it was given, if all that the live
  reservations of its namespace ask for, placed or not, is more than its share of the least that all nodes have ever
  offered together: of seats that are only decided, and of nodes that come and go, nobody else need have heard.
- A seat may be taken again if its pod is gone from the API, was never marked, and was bound by a scheduler that has
  died since. Objects then remember nothing; of the history of writes a server keeps minutes at most. No room is at
  stake, since nobody sits there. A scheduler that lives has to remember: it is blamed.
- Room that others took at the very instant of a write is not held against it: nobody can have heard of it.
- A seat that a change of the spec took away need not be marked. A pod that was on its way there is bound without a
  name, if that is known by then; if not, the index is still not given to another one while that pod is there.
- A change of the spec is no write of ours, and is heard of when it is heard of. Until a status is written that has seen
  it (observedGeneration), a seat counts for the least that its reservation has asked for since one was: who has not
  heard of the change cannot count on less being held, who has may. The write that has seen it is guarded by the version
  of the change and answers for all of it. To know every change, the auditor has to `look` after each.
- Who gives up a seat gives up the hope that went with it: those whom it awaited count among those who stay once more.
  That takes nothing from anybody, so what is to be hoped for on its node is not asked after such a write.
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
    Left,
    Shortages,
    Sizes,
    held_by,
    is_shut,
    left,
    shortages,
    sizes_of,
    still_awaited,
)
from tests.control.reservations.reservation_cluster import open_seats, takes_room

T = TypeVar("T")


class _AtOnce:
    """The server without the moment between asking and answering, in which others may write: nobody could be blamed."""

    def __init__(self, api: MemoryApi) -> None:
        self.watch = api.watch
        self._answer = api._answer

    async def call(self, request: Request) -> Response:
        return self._answer(request)


class Auditor:
    """ports.Api over another one."""

    def __init__(
        self, api: MemoryApi, clock: Clock, *, namespace_share: int = 100, statuses_only: bool = False
    ) -> None:
        self.faults: list[str] = []
        self.audits = 0
        self._stolen: dict[str, float] = {}
        """When room of a node was last taken by others: of that very moment nobody can have heard yet."""
        self.watch = api.watch
        self._api: Api = _AtOnce(api)
        self._clock = clock
        self._client = Client(self._api)
        self._namespace_share = namespace_share
        self._statuses_only = statuses_only
        self._offered: Vector | None = None
        """The least that all nodes have ever offered together."""
        self._store = api._state.store
        self._known: dict[str, tuple[int, list[Any]]] = {}
        """What was read of every kind, and how much had been written of it by then."""
        self.life = 0
        """Which scheduler leads."""
        self._bound: dict[tuple[str, str], str] = {}
        """The pod that was bound into a seat, by the seat and the UID of its reservation."""
        self._bound_in: dict[tuple[str, str], int] = {}
        """In whose life."""
        self._seat_of: dict[str, tuple[str, str]] = {}
        """The same, by the UID of the pod."""
        self._on: dict[str, str] = {}
        self._outdone: dict[str, float] = {}
        """When a reservation last had to give way, by its UID: several may fail for the same cause."""
        self._greedy: dict[str, float] = {}
        """When one last asked for more than it was given, and its namespace for more than its share."""
        self._marked: dict[tuple[str, str, int], str] = {}
        self._asked: dict[str, Sizes] = {}
        """What a seat of each task is sure to hold, by the UID of its reservation."""
        self._meant_for: dict[str, set[Owners]] = {}
        """Everybody whom a reservation was for, by its UID."""

    async def call(self, request: Request) -> Response:
        ours = is_write(request) and (request.subresource == "binding" or request.resource.plural == "reservations")
        if not ours:
            await asyncio.sleep(0)
            return await self._api.call(request)
        if self._statuses_only and request.subresource not in ("binding", "status"):
            self._note(request, "that is not the scheduler's to do")
        short = await self.shortages()
        now = _time()
        self._outdone |= dict.fromkeys(await self._losers(), now)
        self._greedy |= dict.fromkeys(await self._asking_too_much(), now)
        old = await self._reservation(request)
        response = await self._api.call(request)
        self.audits += 1
        new = msgspec.json.decode(response.body, type=Reservation) if old is not None else None
        for (book, node, name), missing in (await self.shortages()).items():
            before = max(short.get((book, node, name), 0), 0)
            if (
                request.verb == "delete"
                or self._stolen.get(node) == now
                or (book == "hope" and _gave_up(old, new, node))
            ):
                continue
            if missing > before:
                self._note(request, f"{book} {node} {name} lacks {missing}, {before} before")
        if request.subresource == "binding":
            await self._bind(request)
        elif old is not None and new is not None:
            await self._status(request, old, new)
        await asyncio.sleep(0)
        return response

    def rob(self, node: str) -> None:
        """Somebody else takes room of a node, now."""
        self._stolen[node] = _time()

    def _note(self, request: Request, what: str) -> None:
        self.faults.append(f"at {self._clock.now():.2f} after {name_of(request)}: {what}")

    async def _reservation(self, request: Request) -> Reservation | None:
        if request.resource.plural != "reservations" or request.subresource != "status":
            return None
        found = await self._all(kinds.RESERVATION)
        where = (request.namespace, request.name)
        return next((one for one in found if (one.metadata.namespace, one.metadata.name) == where), None)

    async def look(self) -> list[Reservation]:
        """Take note of what reservations ask for, and for whom."""
        found = await self._all(kinds.RESERVATION)
        for one in found:
            uid, asked = one.metadata.uid, sizes_of(one)
            if has_undecided_change(one):
                before = self._asked.get(uid, asked)
                asked = {task: vector_minimum(size, before.get(task, {})) for task, size in asked.items()}
            self._asked[uid] = asked
            self._meant_for.setdefault(uid, set()).add(Owners.of(one.spec.owners or ()))
        return found

    # --- 1 ------------------------------------------------------------------------------------------------------------

    async def shortages(self) -> Shortages:
        """Where there is more than fits, in every book."""
        return shortages(await self._left())

    async def _left(self) -> Left:
        pods = [one for one in await self._all(kinds.POD) if takes_room(one)]
        return left(await self._nodes(), pods, await self.look(), self._asked)

    async def _losers(self) -> set[str]:
        """Who has to give way on nodes with more on them than they offer, once those who are leaving have left."""
        found = await self.look()
        pods = [one for one in await self._all(kinds.POD) if takes_room(one)]
        held = {one.metadata.uid: held_by(one, pods, sizes_of(one)) for one in found}
        free = {one.metadata.name: dict(parse_amounts(one.status.allocatable)) for one in await self._nodes()}
        staying = [(one.spec.node_name or "", one) for one in pods if one.metadata.deletion_timestamp is None]
        on_it = [(node, pod_requests(pod)) for node, pod in staying]
        for node, request in [*on_it, *(seat for seats in held.values() for seat in seats)]:
            if node in free:
                free[node] = subtract_vectors(free[node], add_vectors(request, {PODS: 1}))
        losers: set[str] = set()
        for place in free:
            for one in sorted(found, key=lambda one: _standing(one, place, pods), reverse=True):
                there = [add_vectors(request, {PODS: 1}) for node, request in held[one.metadata.uid] if node == place]
                awaited = still_awaited(one, place, pods)
                hoped = free[place]
                for pod in awaited:
                    hoped = add_vectors(hoped, add_vectors(pod_requests(pod), {PODS: 1}))
                lost = any(hoped.get(name, 0) < 0 for request in there for name, amount in request.items() if amount)
                if lost:
                    losers.add(one.metadata.uid)
                if lost or awaited:  # nobody else loses a seat to one that only hopes
                    for request in there:
                        free[place] = add_vectors(free[place], request)
        return losers

    async def _asking_too_much(self) -> set[str]:
        """Who asks for more than it was given, in a namespace that asks for more than it may hold."""
        offered: Vector = {}
        for node in await self._nodes():
            offered = add_vectors(offered, parse_amounts(node.status.allocatable))
        least = self._offered = vector_minimum(offered, self._offered or offered)
        share = {name: amount * self._namespace_share // 100 for name, amount in least.items()}
        live = [one for one in await self.look() if not is_ended(one)]
        asked: dict[str, Vector] = {}
        for one in live:
            for task in one.spec.tasks or ():
                size, namespace = add_vectors(sizes_of(one)[task.name], {PODS: 1}), one.metadata.namespace or ""
                asked[namespace] = add_vectors(asked.get(namespace, {}), scale_vector(size, seat_count(task)))
        over = {namespace for namespace, request in asked.items() if not vector_fits(request, share)}
        return {one.metadata.uid for one in live if one.metadata.namespace in over and has_undecided_increase(one)}

    async def _nodes(self) -> list[Node]:
        return await self._all(kinds.NODE)

    async def _all(self, kind: Kind[T]) -> list[T]:
        """What there is of a kind; read again only if something of that kind was written since."""
        name = kind.qualified_name
        written = self._store.collections[name].log.end
        at, found = self._known.get(name, (-1, []))
        if at != written:
            found = (await self._client.list(kind)).items
            self._known[name] = written, found
        return found

    # --- 3 ------------------------------------------------------------------------------------------------------------

    async def _status(self, request: Request, old: Reservation, new: Reservation) -> None:
        self._marks(request, new)
        await self._kept(request, old, new)
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
            "RoomTaken": _time() - self._outdone.get(new.metadata.uid, -math.inf) <= 1.0,
            "LimitExceeded": _time() - self._greedy.get(new.metadata.uid, -math.inf) <= 1.0,
        }
        if not is_true.get(new.status.state.reason or "", False):
            self._note(request, f"it failed: {new.status.state.reason}: {new.status.state.message}")

    async def _kept(self, request: Request, old: Reservation, new: Reservation) -> None:
        """A seat that nobody took stays where it is, unless it is given up for a reason that is true."""
        now = {(one.task, one.index): one for one in new.status.placements or ()}
        there = {one.metadata.name for one in await self._nodes()}
        losses = (self._outdone.get(new.metadata.uid, -math.inf), self._greedy.get(new.metadata.uid, -math.inf))
        for one in old.status.placements or ():
            found = now.get((one.task, one.index))
            is_lost = one.node_name not in there or _time() - max(losses) <= 1.0
            is_asked_for = one.index < seats_per_task(new).get(one.task, 0)
            is_lost = is_lost or await self._is_hope(old, new, one)
            if found is None and one.pod_ref is None and is_asked_for and not is_lost:
                self._note(request, f"seat {one.task}/{one.index} was given up for no reason")
            if found is not None and found.pod_ref is None and found.node_name != one.node_name:
                self._note(request, f"seat {one.task}/{one.index} was on {one.node_name}, and is on {found.node_name}")

    async def _is_hope(self, old: Reservation, new: Reservation, seat: Placement) -> bool:
        """Whether a reservation that has all that it needs now gives up a seat whose room is being left."""
        if (old.status.state.phase, new.status.state.phase) != ("Waiting", "Available"):
            return False
        there = [one for one in await self._all(kinds.POD) if one.spec.node_name == seat.node_name]
        return any(one.metadata.deletion_timestamp is not None for one in there)

    # --- 5 ------------------------------------------------------------------------------------------------------------

    async def _bind(self, request: Request) -> None:
        body = msgspec.json.decode(request.body)
        uid, notes = body["metadata"]["uid"], body["metadata"].get("annotations", {})
        where = self._on[uid] = body["target"]["name"]
        seat = (notes.get("restow.sh/reservation", ""), notes.get("restow.sh/reservation-uid", ""))
        before, same = self._bound.get(seat, uid), self._bound_in.get(seat) == self.life
        if before != uid and (same or await self._is_remembered(seat[1], before)):
            self._note(request, f"{seat[0]} was taken by {before}, and now by {uid}")
        if seat[0] and not await self._was_meant_for(uid, seat[1]):
            self._note(request, f"{seat[0]} never was for the owner of {uid}")
        pods, of = await self._all(kinds.POD), await self._all(kinds.RESERVATION)
        if any(is_shut(one, pods) for one in of if one.metadata.uid == seat[1]):
            self._note(request, f"{uid} was bound into {seat[0]} before the pod leaves that it was made to move")
        if where in await self._overfull() and self._stolen.get(where) != _time():
            self._note(request, f"{uid} was bound to {where}, whose pods are more than it offers")
        if seat[0]:
            self._bound[seat], self._bound_in[seat], self._seat_of[uid] = uid, self.life, seat

    async def _overfull(self) -> list[str]:
        """Nodes with pods for which there is no room, whatever is held for whom."""
        nodes = {one.metadata.name: dict(parse_amounts(one.status.allocatable)) for one in await self._nodes()}
        for pod in await self._all(kinds.POD):
            where = pod.spec.node_name or ""
            if takes_room(pod) and where in nodes:
                nodes[where] = subtract_vectors(nodes[where], add_vectors(pod_requests(pod), {PODS: 1}))
        return [name for name, left in nodes.items() if any(amount < 0 for amount in left.values())]

    async def _is_remembered(self, life: str, uid: str) -> bool:
        """Whether the API knows of a pod that it took a seat: nothing does if it was gone before a dying scheduler
        marked the seat."""
        if uid in {taker for (one, *_), taker in self._marked.items() if one == life}:
            return True
        return await self._pod(uid) is not None

    async def _was_meant_for(self, uid: str, life: str) -> bool:
        owner_chains, pod = await self._owner_chains(), await self._pod(uid)
        return pod is None or any(one.matches(pod, owner_chains) for one in self._meant_for.get(life, ()))

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

    def _marks(self, request: Request, one: Reservation) -> None:
        found = {(each.task, each.index): each for each in one.status.placements or ()}
        marked = {key[1:]: uid for key, uid in self._marked.items() if key[0] == one.metadata.uid}
        for seat, uid in marked.items():
            reference = found[seat].pod_ref if seat in found else None
            if reference is None or reference.uid != uid:
                self._note(request, f"seat {seat} was marked for {uid}, and is not any more")
        for seat, each in found.items():
            if each.pod_ref is None:
                continue
            uid = each.pod_ref.uid or ""
            if self._marked.setdefault((one.metadata.uid, *seat), uid) == uid and seat not in marked:
                name = f"{one.metadata.namespace}/{one.metadata.name}/{each.task}/{each.index}"
                if self._seat_of.get(uid) != (name, one.metadata.uid) or self._on.get(uid) != each.node_name:
                    self._note(request, f"seat {seat} was marked for {uid}, which was not bound into it")
        taken = [each.pod_ref.uid for each in found.values() if each.pod_ref is not None]
        if len(taken) != len(set(taken)):
            self._note(request, "a pod took two seats")


def _time() -> float:
    """Seconds that no clock can change."""
    return asyncio.get_running_loop().time()


def _standing(one: Reservation, node: str, pods: list[Pod]) -> tuple[bool, bool, bool, str, str]:
    """Those that only hope give way first, then those that ask for more than they have, then those that were promised
    nothing yet, then the newest."""
    hopes = any(pod.spec.node_name == node and pod.metadata.uid in awaited_pods(one) for pod in pods)
    is_promised = one.status.state.phase == "Available"
    return hopes, has_undecided_increase(one), not is_promised, one.metadata.creation_timestamp or "", one.metadata.name


def _gave_up(old: Reservation | None, new: Reservation | None, node: str) -> bool:
    """Whether a reservation has fewer seats on a node than it had, and none that it had not."""
    before, after = (
        {seat for _, seat, where in open_seats(one) if where == node} if one else set() for one in (old, new)
    )
    return after < before
