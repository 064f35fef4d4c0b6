"""The cluster as the API shows it: tables over nodes and pods that follow watch events and are never rebuilt.

Goes in: nodes, pods, reservations, queues, PodGroups, owners, namespaces and storage objects, in any order, repeated or
late. Comes out: the parts below. An event that is older than what was seen changes nothing.

    rows     a row per node name          occupancy      the pods, and reserved pods, on each node
    room     ledgers [resource][row]      pods           bound, assumed and terminating pods by UID
    nodes    labels, taints, cordons      reservations   reservations, their seats, and what these take
    masks    where a shape may go         classes        pods that are equal to scheduling
    ports    host ports in use            affinity       pods by the labels that other pods select
    namespaces   their labels             topologies     the domains of topology keys
    mounts   volumes in use               storage        volumes, claims, classes, drivers
    attached     volumes per driver       locks          nodes kept for the pods of a queue
    owner_chains    owners of owners      shapes         what scheduling reads of a pod's spec

What is interned (resources, label values, shapes, keys of interest) stays when a change is undone; it has no meaning
of its own.
"""

from __future__ import annotations

from restow.model.cluster.affinity_index import AffinityIndex
from restow.model.cluster.host_ports import HostPorts
from restow.model.cluster.known_pods import KnownPods
from restow.model.cluster.namespaces import Namespaces
from restow.model.cluster.node_masks import NodeMasks
from restow.model.cluster.node_table import NodeTable
from restow.model.cluster.occupancy import Occupancy, Occupant
from restow.model.cluster.owner_chains import OwnerChains
from restow.model.cluster.pod_classes import PodClasses
from restow.model.cluster.pod_shapes import Shapes
from restow.model.cluster.queue_locks import QueueLocks
from restow.model.cluster.room import Room
from restow.model.cluster.rows import Rows
from restow.model.cluster.seen_versions import SeenVersions, version_number
from restow.model.cluster.storage import AttachedVolumes, Storage, StorageObject
from restow.model.cluster.topology_domains import Topologies
from restow.model.cluster.undo_log import UndoLog
from restow.model.object_key import key_of
from restow.model.objects import Namespace, Node, ObjectMeta, Pod, PodGroup, Queue, Reservation
from restow.model.reservations.reservation_index import ReservationIndex
from restow.model.resources import Vector, parse_amounts


class ObservedCluster:
    """Read the parts directly; change them only through these methods."""

    def __init__(self) -> None:
        log = UndoLog()
        self._log = log
        self._node_versions = SeenVersions(log)
        self.rows = Rows(log)
        self.room = Room(log, self.rows)
        self.nodes = NodeTable(log, self.rows)
        self.masks = NodeMasks(self.nodes)
        self.shapes = Shapes(self.room.resources)
        self.owner_chains = OwnerChains(log)
        self.locks = QueueLocks(log, self.nodes, self.owner_chains)
        self.classes = PodClasses(self.shapes, self.locks)
        self.ports = HostPorts(log, self.rows)
        self.namespaces = Namespaces(log)
        self.affinity = AffinityIndex(log, self.namespaces)
        self.topologies = Topologies(self.nodes)
        self.occupancy = Occupancy(log, self.rows, self.room, self.nodes, self.ports, self.affinity)
        self.mounts = self.occupancy.mounts
        self.storage = Storage(log, self.nodes, self.mounts)
        self.attached = AttachedVolumes(self.storage, self.mounts, self.nodes)
        self.pods = KnownPods(log, self.occupancy, self.shapes)
        self.reservations = ReservationIndex(log, self.occupancy, self.classes, self.pods, self.owner_chains)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def apply_node(self, node: Node) -> None:
        name, offered = node.metadata.name, parse_amounts(node.status.allocatable)
        if self._node_versions.is_news(name, version_number(node.metadata.resource_version), gone=False):
            self._write_node(self.rows.ensure_row(name), node, offered)

    def remove_node(self, node: Node) -> None:
        """The pods on it stay counted on its row until they are gone too."""
        name = node.metadata.name
        if not self._node_versions.is_news(name, version_number(node.metadata.resource_version), gone=True):
            return
        row = self.rows.find_row(name)
        if row is not None:
            self._write_node(row, None, {})
            self.occupancy.free_row(name)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def apply_pod(self, pod: Pod) -> bool:
        """Returns whether the event says anything new."""
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

    # --- reservations and their owners --------------------------------------------------------------------------------

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

    def apply_group(self, group: PodGroup) -> None:
        if self.owner_chains.put_group(group):
            self.reservations.owners_changed()

    def remove_group(self, group: PodGroup) -> None:
        self.owner_chains.drop_group(*key_of(group))
        self.reservations.owners_changed()

    # --- everything else ----------------------------------------------------------------------------------------------

    def apply_namespace(self, namespace: Namespace) -> None:
        self.namespaces.apply(namespace)

    def remove_namespace(self, namespace: Namespace) -> None:
        self.namespaces.remove(namespace)

    def apply_queue(self, queue: Queue) -> None:
        """Only the locks of a queue matter here."""
        self.locks.apply(queue)

    def remove_queue(self, queue: Queue) -> None:
        self.locks.remove(queue)

    def apply_storage(self, item: StorageObject) -> None:
        """A volume, claim, class, capacity, attachment, CSINode or CSIDriver. Raises QuantityError, and nothing
        changes."""
        self.storage.apply(item)

    def remove_storage(self, item: StorageObject) -> None:
        self.storage.remove(item)

    # ------------------------------------------------------------------------------------------------------------------

    def _write_node(self, row: int, node: Node | None, offered: Vector) -> None:
        self.nodes.write(row, node)
        self.locks.node_written(row, None if node is None else node.metadata.name)
        self.room.set_allocatable(row, self.room.resources.columns(offered))

    def _pod_changed(self, pod: Pod, before: Occupant | None) -> None:
        after = self.pods.known.get(pod.metadata.uid)
        if after is not None and after.shape.selector_scopes:
            self.classes.note(after.shape, pod.metadata.namespace or "")
        self.reservations.pod_changed(pod.metadata.uid, before)
