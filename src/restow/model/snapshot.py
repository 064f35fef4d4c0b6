"""The snapshot: the cluster as scheduling sees it, kept up to date event by event and never rebuilt.

Goes in: nodes, pods, reservations (and who owns whom), volumes as the API shows them, in any order, repeated or late;
and what the scheduler assumes before the API shows it. Comes out: arrays over nodes (`room`, `nodes`), who is on a
node, equivalence classes of pods, and masks per shape that cost only the rows that changed.

Anything may be tried: `mark()`, change at will, then `undo_to(mark)` restores every value exactly, or `keep(mark)`.

    rows     a row per node name          occupancy      who takes room where
    room     ledgers [resource][row]      pods           the life of a pod here
    nodes    labels, taints, cordons      reservations   which seats hold room
    masks    where a shape may go         classes        pods that are alike to scheduling
    ports    host ports held              crowd          who is where, by the labels others read
    namespaces   their labels             topologies     the domains of topology keys
    mounts   who uses which volumes       storage        volumes, claims, classes, drivers
    attached     volumes per driver       locks          nodes kept for the pods of a queue

What is interned (resources, label values, shapes, keys of interest) stays when a change is undone; it has no meaning
of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from restow.model.cluster.classes import Classes, PodClass
from restow.model.cluster.affinity_index import AffinityIndex
from restow.model.cluster.domains import Topologies
from restow.model.cluster.queue_locks import QueueLocks
from restow.model.cluster.masks import Masks
from restow.model.object_key import key_of
from restow.model.cluster.namespaces import Namespaces
from restow.model.cluster.nodes import NodeTable
from restow.model.cluster.occupancy import Occupancy, Occupant
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.pods import Assumption, Pods
from restow.model.cluster.ports import Ports
from restow.model.reservations.reservation_index import ReservationIndex
from restow.model.cluster.room import Room
from restow.model.cluster.rows import Rows
from restow.model.cluster.shapes import Shape, Shapes
from restow.model.cluster.storage import Attached, Storage, StorageObject
from restow.model.cluster.undo import Mark, UndoLog
from restow.model.cluster.versions import Versions, version_number
from restow.model.objects import Namespace, Node, ObjectMeta, Placement, Pod, PodGroup, Queue, Reservation
from restow.model.reservations.seat_name import SeatName
from restow.model.resources import Vector, amounts


class UnknownNode(LookupError):
    """There is no such node, or no more."""


class Snapshot:
    """Read the parts directly; change them only through these methods."""

    def __init__(self) -> None:
        log = UndoLog()
        self._log = log
        self._node_versions = Versions(log)
        self.rows = Rows(log)
        self.room = Room(log, self.rows)
        self.nodes = NodeTable(log, self.rows)
        self.masks = Masks(self.nodes)
        self.shapes = Shapes(self.room.resources)
        self.owner_chains = OwnerChains(log)
        self.locks = QueueLocks(log, self.nodes, self.owner_chains)
        self.classes = Classes(self.shapes, self.locks)
        self.ports = Ports(log, self.rows)
        self.namespaces = Namespaces(log)
        self.affinity = AffinityIndex(log, self.namespaces)
        self.topologies = Topologies(self.nodes)
        self.occupancy = Occupancy(log, self.rows, self.room, self.nodes, self.ports, self.affinity)
        self.mounts = self.occupancy.mounts
        self.storage = Storage(log, self.nodes, self.mounts)
        self.attached = Attached(self.storage, self.mounts, self.nodes)
        self.pods = Pods(log, self.occupancy, self.shapes)
        self.reservations = ReservationIndex(log, self.occupancy, self.classes, self.pods, self.owner_chains)

    # --- what the API shows -------------------------------------------------------------------------------------------

    def apply_node(self, node: Node) -> None:
        name, offered = node.metadata.name, amounts(node.status.allocatable)
        if self._node_versions.is_news(name, version_number(node.metadata.resource_version), gone=False):
            self._write_node(self.rows.claim(name), node, offered)

    def remove_node(self, node: Node) -> None:
        """The pods on it stay counted on its row until they are gone too."""
        name = node.metadata.name
        if not self._node_versions.is_news(name, version_number(node.metadata.resource_version), gone=True):
            return
        row = self.rows.find(name)
        if row is not None:
            self._write_node(row, None, {})
            self.occupancy.free_row(name)

    def apply_pod(self, pod: Pod) -> bool:
        """Returns whether it was news."""
        before = self.pods.known.get(pod.metadata.uid)
        if not self.pods.apply(pod):
            return False
        self._pod_changed(pod, before)
        return True

    def remove_pod(self, pod: Pod) -> None:
        before = self.pods.known.get(pod.metadata.uid)
        if self.pods.remove(pod):
            self._pod_changed(pod, before)

    def pods_seen_through(self, version: str) -> None:
        """Every change of pods up to this version was seen: to be called after a list, a bookmark, a watch event.

        It is not concluded from the pods themselves, because the items of a list come in no order.
        """
        number = version_number(version)
        if number is not None:
            self.pods.see_through(number)
            self.reservations.states.pods_seen()

    def apply_reservation(self, reservation: Reservation) -> None:
        self.reservations.apply(reservation)

    def remove_reservation(self, reservation: Reservation) -> None:
        self.reservations.remove(reservation)

    def apply_owner(self, metadata: ObjectMeta) -> None:
        """An object that pods, or their owners, name as their owner, such as a ReplicaSet."""
        if self.owner_chains.put(metadata):
            self.reservations.owners_changed()

    def remove_owner(self, metadata: ObjectMeta) -> None:
        self.owner_chains.drop(metadata.uid)
        self.reservations.owners_changed()

    def apply_namespace(self, namespace: Namespace) -> None:
        self.namespaces.apply(namespace)

    def remove_namespace(self, namespace: Namespace) -> None:
        self.namespaces.remove(namespace)

    def apply_group(self, group: PodGroup) -> None:
        if self.owner_chains.put_group(group):
            self.reservations.owners_changed()

    def remove_group(self, group: PodGroup) -> None:
        self.owner_chains.drop_group(*key_of(group))
        self.reservations.owners_changed()

    def apply_queue(self, queue: Queue) -> None:
        """A queue, of which only the locks matter here."""
        self.locks.apply(queue)

    def remove_queue(self, queue: Queue) -> None:
        self.locks.remove(queue)

    def apply_storage(self, item: StorageObject) -> None:
        """A volume, claim, class, attachment, or what a CSI driver says. Raises QuantityError, and nothing changes."""
        self.storage.apply(item)

    def remove_storage(self, item: StorageObject) -> None:
        self.storage.remove(item)

    # --- what the scheduler decides, ahead of the API -----------------------------------------------------------------

    def assume(
        self,
        pod: Pod,
        node: str,
        *,
        at: float,
        seat: SeatName | None = None,
        shape: Shape | None = None,
        instead: Occupant | None = None,
    ) -> None:
        """Count a pod on a node, in a reservation's seat if one is given. Raises UnknownNode, AlreadyPlaced.

        `shape` is the pod's, where the caller has it at hand; `instead` what the seat holds, if that is exchangeable.
        """
        if self.node(node) is None:
            raise UnknownNode(f"node {node} is not known")
        shape = shape or self.shapes.of(pod)
        self.pods.assume(pod, node, shape, seat, at, instead=instead)
        if instead is not None:
            assert seat is not None, "it is what a seat holds"
            self.reservations.states.exchanged(seat, pod.metadata.uid)
            return
        if shape.readings:
            self.classes.note(shape, pod.metadata.namespace or "")
        self.reservations.pod_changed(pod.metadata.uid, None)

    def forget(self, pod: Pod) -> bool:
        """Take an assumption back; False, and nothing changes, if there is none or the API has confirmed it."""
        before = self.pods.known.get(pod.metadata.uid)
        forgotten = self.pods.forget(pod.metadata.uid)
        if forgotten:
            self._pod_changed(pod, before)
        return forgotten

    def assumed(self, now: float) -> list[Assumption]:
        """Pods assumed and not yet shown by the API, oldest first. One that stays is a leak: ask the API about it."""
        return list(self.pods.assumed(now))

    def assume_placements(self, reservation: Reservation, placements: Iterable[Placement], *, at: float) -> None:
        """Hold seats before the reservation's status shows them. Raises LookupError for an unknown reservation."""
        self.reservations.assume(*key_of(reservation), placements, at)

    def forget_placements(self, reservation: Reservation) -> bool:
        """Take assumed placements back; False if there are none or the status shows some."""
        return self.reservations.forget(*key_of(reservation))

    # --- trying -------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        return self._log.mark()

    def undo_to(self, mark: Mark) -> None:
        self._log.undo_to(mark)

    def keep(self, mark: Mark) -> None:
        self._log.keep(mark)

    @contextmanager
    def overlooking(self, *uids: str) -> Iterator[None]:
        """For as long as it lasts, pods that are to move count for nothing but the room they take: they shut nobody out
        of a port, and are neither company nor crowd. What is changed meanwhile is only tried: it is taken back, too."""
        mark = self.mark()
        try:
            for uid in uids:
                occupant = self.pods.known.get(uid)
                if occupant is not None:
                    self.occupancy.overlook(occupant)
            yield
        finally:
            self.undo_to(mark)

    @contextmanager
    def without_unguaranteed_seats(self, node: str, taken: SeatName | None = None) -> Iterator[bool]:
        """For as long as it lasts, seats on a node that are promised to nobody yet take no room there; while one is
        being `taken`, neither does what it holds beyond its pod, nor what is kept of others beside pods that are there.
        Gives whether there is anything of others. What is changed meanwhile is only tried: it is taken back, too."""
        there = self.occupants(node)
        named = (SeatName.parse(one.key) for one in there if one.ledger == "reserved")
        hopes = [name for name in named if name is not None and self.reservations.states.is_unguaranteed(name)]
        seated = there if taken is not None else ()
        rests = [one.seat for one in seated if one.seat is not None and self.reservations.unrecorded_remainder(one)]
        mark = self.mark()
        try:
            for name in hopes:
                self.reservations.states.vacate(name)
            for name in rests if taken is None else [*rests, taken]:
                self.occupancy.set_remainder(name, node, ())
            yield bool(hopes or rests)
        finally:
            self.undo_to(mark)

    # --- reading ------------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Node | None:
        row = self.rows.find(name)
        return None if row is None else self.nodes.get(row)

    def occupants(self, node: str) -> list[Occupant]:
        """Pods on a node and seats held there, by key."""
        return self.occupancy.occupants(node)

    def class_of(self, pod: Pod, shape: Shape | None = None) -> PodClass:
        """The class of a pod; `shape` is the pod's, where the caller has it at hand."""
        return self.classes.of(pod, shape)

    # ------------------------------------------------------------------------------------------------------------------

    def _write_node(self, row: int, node: Node | None, offered: Vector) -> None:
        self.nodes.write(row, node)
        self.locks.node_written(row, None if node is None else node.metadata.name)
        self.room.set_allocatable(row, self.room.resources.columns(offered))

    def _pod_changed(self, pod: Pod, before: Occupant | None) -> None:
        after = self.pods.known.get(pod.metadata.uid)
        if after is not None and after.shape.readings:
            self.classes.note(after.shape, pod.metadata.namespace or "")
        self.reservations.pod_changed(pod.metadata.uid, before)
