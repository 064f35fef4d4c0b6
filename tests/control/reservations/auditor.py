"""An auditor between the schedulers and the API server: after every write of theirs, do the promises still hold?

1  no write makes any node more over-committed than it was: pods and the seats of live reservations fit; seats that
   wait for pods to leave fit once they have left; seats that await pods which only are to leave (`restow.sh/awaits`)
   fit once those have left as well, and take nothing from anybody else until then
3  a reservation fails for a reason that is true at that moment, and only for one
   nobody is bound where pods alone are more than the node offers: onto room that somebody has yet to leave
5  nobody is bound into a seat that somebody was bound into before, nor into one that never was for its owner; a seat is
   marked for the pod that was bound into it, after that; what is marked stays marked

Where it looks away, and why that hides nothing:

- RoomTaken is believed of whoever had to go within the last second, by the definition (who only hopes, who asks for
  more than it has, who is not Available, then the newest, until the rest fits): no write can depend on what others
  write meanwhile, so a reason is true of the read before it.
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
- A pod that names a seat and is none of the owners (any more) is believed by the scheduler that bound it. To the next
  one it is the same as a forger: it may hold the seat for others beside that pod, and fail if both have no room.
"""

from __future__ import annotations

import asyncio

import msgspec

from restow.adapters.memory import MemoryApi
from restow.client.verbs import Client
from restow.model import kinds
from restow.model.cluster.owners import Kinship, Owners
from restow.model.cluster.seat import awaited_pods, is_expired
from restow.model.cluster.undo import UndoLog
from restow.model.objects import Node, Pod, Reservation
from restow.model.resources import PODS, Vector, add, amounts, fits, minimum, pod_requests, subtract, template_requests
from restow.ports import Api, Clock, Request, Response
from restow.scheduling.reservations.validity import has_grown, is_changed, problems
from restow.sim.writes import is_write, name_of
from tests.control.reservations.stage import open_seats, takes_room

Shortages = dict[tuple[str, str, str], int]
"""How much is missing, by book, node and resource."""
Held = dict[str, list[tuple[str, Vector]]]
"""The nodes and sizes of the seats in which nobody sits, by the UID of their reservation."""


class _AtOnce:
    """The server without the moment between asking and answering, in which others may write: nobody could be blamed."""

    def __init__(self, api: MemoryApi) -> None:
        self.watch = api.watch
        self._answer = api._answer

    async def call(self, request: Request) -> Response:
        return self._answer(request)


class Auditor:
    """ports.Api over another one."""

    def __init__(self, api: MemoryApi, clock: Clock) -> None:
        self.faults: list[str] = []
        self.audits = 0
        self.stolen: dict[str, float] = {}
        """When room of a node was last taken by others: of that very moment nobody can have heard yet."""
        self.watch = api.watch
        self._api: Api = _AtOnce(api)
        self._clock = clock
        self._client = Client(self._api)
        self.life = 0
        """Which scheduler leads."""
        self._bound: dict[tuple[str, str], str] = {}
        """The pod that was bound into a seat, by the seat and the UID of its reservation."""
        self._bound_in: dict[tuple[str, str], int] = {}
        """In whose life."""
        self._seat_of: dict[str, tuple[str, str]] = {}
        """The same, by the UID of the pod."""
        self._supplanted: set[str] = set()
        """Pods whose seats others took, who could not know."""
        self._on: dict[str, str] = {}
        self._outdone: dict[str, float] = {}
        """When a reservation last had to give way, by its UID: several may fail for the same cause."""
        self._marked: dict[tuple[str, str, int], str] = {}
        self._asked: dict[str, dict[str, Vector]] = {}
        """What a seat of each task is sure to hold, by the UID of its reservation."""
        self._meant_for: dict[str, set[Owners]] = {}
        """Everybody whom a reservation was for, by its UID."""

    async def call(self, request: Request) -> Response:
        ours = is_write(request) and (request.subresource == "binding" or request.resource.plural == "reservations")
        if not ours:
            await asyncio.sleep(0)
            return await self._api.call(request)
        short = await self.shortages()
        now = self._clock.now()
        self._outdone |= dict.fromkeys(await self._losers(), now)
        old = await self._reservation(request)
        response = await self._api.call(request)
        self.audits += 1
        new = msgspec.json.decode(response.body, type=Reservation) if old is not None else None
        for (book, node, name), missing in (await self.shortages()).items():
            before = max(short.get((book, node, name), 0), 0)
            if (
                request.verb == "delete"
                or self.stolen.get(node) == now
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

    def _note(self, request: Request, what: str) -> None:
        self.faults.append(f"at {self._clock.now():.2f} after {name_of(request)}: {what}")

    async def _reservation(self, request: Request) -> Reservation | None:
        if request.resource.plural != "reservations" or request.subresource != "status":
            return None
        found = (await self._client.list(kinds.RESERVATION, request.namespace)).items
        return next((one for one in found if one.metadata.name == request.name), None)

    async def look(self) -> list[Reservation]:
        """Take note of what reservations ask for, and for whom."""
        found = (await self._client.list(kinds.RESERVATION)).items
        for one in found:
            uid, asked = one.metadata.uid, _sizes(one)
            if is_changed(one):
                before = self._asked.get(uid, asked)
                asked = {task: minimum(size, before.get(task, {})) for task, size in asked.items()}
            self._asked[uid] = asked
            self._meant_for.setdefault(uid, set()).add(Owners.of(one.spec.owners or ()))
        return found

    # --- 1 ------------------------------------------------------------------------------------------------------------

    async def shortages(self) -> Shortages:
        """Where there is more than fits: now, counting everybody; later, once those who are leaving have left, without
        seats that only hope; and in hope, once those who are awaited have left, too."""
        free = await self._left()
        return {(*place, name): -amount for place, left in free.items() for name, amount in left.items() if amount < 0}

    async def _left(self) -> dict[tuple[str, str], Vector]:
        """What pods and seats leave of every node, in every book."""
        pods = [one for one in (await self._client.list(kinds.POD)).items if takes_room(one)]
        reservations = await self.look()
        free: dict[tuple[str, str], Vector] = {
            (book, one.metadata.name): dict(amounts(one.status.allocatable))
            for one in await self._nodes()
            for book in ("now", "later", "hope")
        }
        held = {uid: _held(one, pods, self._asked[uid]) for one in reservations for uid in [one.metadata.uid]}
        hopes = {(uid, node) for one in reservations for uid in awaited_pods(one) for node, _ in held[one.metadata.uid]}
        for pod in pods:
            where = pod.spec.node_name or ""
            leaves = pod.metadata.deletion_timestamp is not None
            awaited = (pod.metadata.uid, where) in hopes
            for book in ("now",) if leaves else ("now", "later") if awaited else ("now", "later", "hope"):
                _charge(free, book, where, pod_requests(pod))
        for reservation in sorted(reservations, key=_waiting):  # who waits, waits for what the others leave
            waiting = _waiting(reservation)
            for node, request in held[reservation.metadata.uid]:
                _charge(free, "hope", node, request)
                if not _still_awaited(reservation, node, pods):
                    _charge(free, "later", node, request)
                if waiting and not fits(request, free.get(("now", node), request)):
                    waiting -= 1  # this is one of the seats that wait for others to leave, and it says so
                else:
                    _charge(free, "now", node, request)
        return free

    async def _losers(self) -> set[str]:
        """Who has to give way on nodes with more on them than they offer, once those who are leaving have left; whether
        pods that may be forgers are believed, or not."""
        found, kinship = await self.look(), await self._kinship()
        pods = [one for one in (await self._client.list(kinds.POD)).items if takes_room(one)]
        losers = set[str]()
        for believing in (True, False):
            held = {
                one.metadata.uid: _held(
                    one, [pod for pod in pods if believing or not self._is_doubtful(pod, one, kinship)], _sizes(one)
                )
                for one in found
            }
            losers |= await self._crowded_out(found, pods, held)
        return losers

    async def _crowded_out(self, found: list[Reservation], pods: list[Pod], held: Held) -> set[str]:
        free = {one.metadata.name: dict(amounts(one.status.allocatable)) for one in await self._nodes()}
        staying = [(one.spec.node_name or "", one) for one in pods if one.metadata.deletion_timestamp is None]
        on_it = [(node, pod_requests(pod)) for node, pod in staying]
        for node, request in [*on_it, *(seat for seats in held.values() for seat in seats)]:
            if node in free:
                free[node] = subtract(free[node], add(request, {PODS: 1}))
        losers: set[str] = set()
        for place in free:
            for one in sorted(found, key=lambda one: _standing(one, place, pods), reverse=True):
                there = [add(request, {PODS: 1}) for node, request in held[one.metadata.uid] if node == place]
                awaited = _still_awaited(one, place, pods)
                hoped = free[place]
                for pod in awaited:
                    hoped = add(hoped, add(pod_requests(pod), {PODS: 1}))
                lost = any(hoped.get(name, 0) < 0 for request in there for name, amount in request.items() if amount)
                if lost:
                    losers.add(one.metadata.uid)
                if lost or awaited:  # nobody else loses a seat to one that only hopes
                    for request in there:
                        free[place] = add(free[place], request)
        return losers

    async def _nodes(self) -> list[Node]:
        return (await self._client.list(kinds.NODE)).items

    # --- 3 ------------------------------------------------------------------------------------------------------------

    async def _status(self, request: Request, old: Reservation, new: Reservation) -> None:
        self._marks(request, new)
        if new.status.state.phase != "Failed" or old.status.state.phase == "Failed":
            return
        nodes = {one.node_name for one in old.status.placements or () if one.pod_ref is None}
        there = {one.metadata.name for one in (await self._client.list(kinds.NODE)).items}
        is_true = {
            "Expired": is_expired(new, self._clock.now()),
            "Invalid": bool(problems(new)),
            "NodeGone": bool(nodes - there),
            "RoomTaken": self._clock.now() - self._outdone.get(new.metadata.uid, 0.0) <= 1.0,
        }
        if not is_true.get(new.status.state.reason or "", False):
            self._note(request, f"it failed: {new.status.state.reason}: {new.status.state.message}")

    # --- 5 ------------------------------------------------------------------------------------------------------------

    async def _bind(self, request: Request) -> None:
        body = msgspec.json.decode(request.body)
        uid, notes = body["metadata"]["uid"], body["metadata"].get("annotations", {})
        where = self._on[uid] = body["target"]["name"]
        seat = (notes.get("restow.sh/reservation", ""), notes.get("restow.sh/reservation-uid", ""))
        before, same = self._bound.get(seat, uid), self._bound_in.get(seat) == self.life
        if before != uid:
            self._supplanted.add(before)
            if same or await self._is_remembered(seat[1], before):
                self._note(request, f"{seat[0]} was taken by {before}, and now by {uid}")
        if seat[0] and not await self._was_meant_for(uid, seat[1]):
            self._note(request, f"{seat[0]} never was for the owner of {uid}")
        if where in await self._overfull() and self.stolen.get(where) != self._clock.now():
            self._note(request, f"{uid} was bound to {where}, whose pods are more than it offers")
        if seat[0]:
            self._bound[seat], self._bound_in[seat], self._seat_of[uid] = uid, self.life, seat

    async def _overfull(self) -> list[str]:
        """Nodes with pods for which there is no room, whatever is held for whom."""
        nodes = {one.metadata.name: dict(amounts(one.status.allocatable)) for one in await self._nodes()}
        for pod in (await self._client.list(kinds.POD)).items:
            where = pod.spec.node_name or ""
            if takes_room(pod) and where in nodes:
                nodes[where] = subtract(nodes[where], add(pod_requests(pod), {PODS: 1}))
        return [name for name, left in nodes.items() if any(amount < 0 for amount in left.values())]

    async def _is_remembered(self, life: str, uid: str) -> bool:
        """Whether the API knows of a pod that it took a seat: nothing does if it was gone before a dying scheduler
        marked the seat, and nobody can tell if its owner is none of the reservation's any more."""
        if uid in {taker for (one, *_), taker in self._marked.items() if one == life}:
            return True
        kinship, pod = await self._kinship(), await self._pod(uid)
        known = [one for one in await self.look() if one.metadata.uid == life]
        return pod is not None and not any(self._is_doubtful(pod, one, kinship) for one in known)

    async def must_be_marked(self, pod: Pod, reservation: Reservation) -> bool:
        """Whether it has to be written down in the end that a pod took its seat."""
        return pod.metadata.uid not in self._supplanted and not self._is_doubtful(
            pod, reservation, await self._kinship()
        )

    async def _was_meant_for(self, uid: str, life: str) -> bool:
        kinship, pod = await self._kinship(), await self._pod(uid)
        return pod is None or any(one.match(pod, kinship) for one in self._meant_for.get(life, ()))

    async def _pod(self, uid: str) -> Pod | None:
        return next((one for one in (await self._client.list(kinds.POD)).items if one.metadata.uid == uid), None)

    async def _kinship(self) -> Kinship:
        known = Kinship(UndoLog())
        for owner in (await self._client.list(kinds.REPLICA_SET)).items:
            known.put(owner.metadata)
        for job in (await self._client.list(kinds.JOB)).items:
            known.put(job.metadata)
        for group in (await self._client.list(kinds.POD_GROUP)).items:
            known.put_group(group)
        return known

    def _is_doubtful(self, pod: Pod, reservation: Reservation, kinship: Kinship) -> bool:
        """Whether a pod says that it took a seat, and whoever leads now cannot know that it is true."""
        notes = pod.metadata.annotations or {}
        seat = (notes.get("restow.sh/reservation", ""), notes.get("restow.sh/reservation-uid", ""))
        if seat[1] != reservation.metadata.uid or self._bound_in.get(seat) == self.life:
            return False
        return not Owners.of(reservation.spec.owners or ()).match(pod, kinship)

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


def _standing(one: Reservation, node: str, pods: list[Pod]) -> tuple[bool, bool, bool, str, str]:
    """Those that only hope give way first, then those that ask for more than they have, then those that were promised
    nothing yet, then the newest."""
    hopes = any(pod.spec.node_name == node and pod.metadata.uid in awaited_pods(one) for pod in pods)
    is_promised = one.status.state.phase == "Available"
    return hopes, has_grown(one), not is_promised, one.metadata.creation_timestamp or "", one.metadata.name


def _sizes(one: Reservation) -> dict[str, Vector]:
    """What its spec asks for, for a seat of each task."""
    return {task.name: template_requests(task.template.spec) for task in one.spec.tasks or ()}


def _charge(free: dict[tuple[str, str], Vector], book: str, node: str, request: Vector) -> None:
    if (book, node) in free:
        free[book, node] = subtract(free[book, node], add(request, {PODS: 1}))


def _waiting(reservation: Reservation) -> int:
    """How many of its seats wait for something."""
    return sum((one.phase or {}).get("Waiting", 0) for one in (reservation.status.task_status_count or {}).values())


def _held(one: Reservation, pods: list[Pod], sizes: dict[str, Vector]) -> list[tuple[str, Vector]]:
    """The nodes of the seats in which nobody sits, and what they hold."""
    return [
        (node, sizes[task])
        for task, seat, node in open_seats(one)
        if not any(_sits_in(pod, seat, one, node) for pod in pods)
    ]


def _gave_up(old: Reservation | None, new: Reservation | None, node: str) -> bool:
    """Whether a reservation has fewer seats on a node than it had, and none that it had not."""
    before, after = (
        {seat for _, seat, where in open_seats(one) if where == node} if one else set() for one in (old, new)
    )
    return after < before


def _still_awaited(one: Reservation, node: str, pods: list[Pod]) -> list[Pod]:
    """The pods on a node of which a reservation hopes that they will leave; they have not begun to."""
    hoped = awaited_pods(one)
    there = [pod for pod in pods if pod.spec.node_name == node and pod.metadata.uid in hoped]
    return [pod for pod in there if pod.metadata.deletion_timestamp is None]


def _sits_in(pod: Pod, seat: str, reservation: Reservation, node: str) -> bool:
    notes = pod.metadata.annotations or {}
    named = (notes.get("restow.sh/reservation"), notes.get("restow.sh/reservation-uid"))
    return named == (seat, reservation.metadata.uid) and pod.spec.node_name == node
