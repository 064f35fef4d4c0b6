"""Equivalence classes: pods that are equal in everything scheduling reads.

    class = shape + the labels somebody reads + the namespace, where it matters + the tenancy, while nodes are locked

Labels are projected onto the keys that some selector reads, so that a pod index or a template hash does not make every
pod a class of its own. `Interest` is the set of those keys, per namespace: a selector in one namespace says nothing
about pods of another. When it grows, `version` changes and `of` may give a pod another, narrower class than before; a
holder of a class from an older version must ask again. Keys that nobody reads any more keep classes finer than needed,
which is never wrong; they are forgotten when half of those who read anything may be gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from weakref import WeakKeyDictionary, WeakValueDictionary

from restow.model.cluster.queue_locks import QueueLocks
from restow.model.cluster.pod_shapes import Shape, Shapes, are_surely_alike
from restow.model.objects import Pod

Projection = tuple[tuple[str, str], ...]
Key = tuple[int, str | None, Projection, str | None]
"""What tells classes apart: the number of their shape, namespace, labels, tenancy (see `locks`)."""

_SPARE = 64
"""So many readers more are not worth a review."""


class PodClass:
    """Pods that every filter and score treats alike. Compared by identity; `number` never comes again."""

    __slots__ = ("__weakref__", "_base", "_unlocked", "labels", "namespace", "number", "shape", "queue_lock_class")

    def __init__(
        self, number: int, key: Key, shape: Shape, base: PodClass | None = None, unlocked: PodClass | None = None
    ) -> None:
        self.number = number
        self._base = base
        self._unlocked = unlocked
        self.shape = shape
        _, self.namespace, self.labels, self.queue_lock_class = key

    @property
    def base(self) -> PodClass:
        """The class of such pods without their volumes: the same for all whose volumes make the only difference."""
        return self._base or self

    @property
    def unlocked(self) -> PodClass:
        """The class of such pods whatever nodes are locked: the same for all whose queues make the only difference."""
        return self._unlocked or self

    def __repr__(self) -> str:
        return f"PodClass({self.number}, {self.shape!r}, {self.namespace!r}, {dict(self.labels)})"


class ReadLabelKeys:
    """Which label keys of pods are read, per namespace."""

    __slots__ = ("_everywhere", "_in_namespace", "_keys", "_noted", "_readers", "_review_at", "version")

    def __init__(self) -> None:
        self.version = 0
        self._readers: WeakKeyDictionary[Shape, set[str]] = WeakKeyDictionary()
        """The shapes whose selectors read something, with the namespaces of their pods."""
        self._noted, self._review_at = 0, _SPARE
        self._everywhere: set[str] | None = None
        self._in_namespace: dict[str, set[str]] = {}
        self._keys: dict[str, tuple[str, ...] | None] = {}

    def note(self, shape: Shape, namespace: str) -> None:
        """What selectors of this shape read, from pods in this namespace, matters for as long as the shape lives."""
        known = self._readers.get(shape)
        if known is not None and namespace in known:
            return
        self._readers.setdefault(shape, set()).add(namespace)
        self._noted += 1
        if self._noted > self._review_at:
            self._review()
        else:
            self._add(shape, namespace)

    def keys(self, namespace: str) -> tuple[str, ...] | None:
        """The keys read of pods in a namespace, sorted; None when no selector looks there."""
        if namespace not in self._keys:
            local = self._in_namespace.get(namespace)
            read = local is not None or self._everywhere is not None
            self._keys[namespace] = tuple(sorted({*(local or ()), *(self._everywhere or ())})) if read else None
        return self._keys[namespace]

    def _review(self) -> None:
        """Forget what only those read who are gone; again once there may be twice as many as are left."""
        readers = list(self._readers.items())
        self._noted = sum(len(namespaces) for _, namespaces in readers)
        self._review_at = 2 * self._noted + _SPARE
        self._everywhere, self._in_namespace = None, {}
        self._changed()
        for shape, namespaces in readers:
            for namespace in namespaces:
                self._add(shape, namespace)

    def _add(self, shape: Shape, own_namespace: str) -> None:
        for reading in shape.readings:
            if reading.all_namespaces:
                self._read_everywhere(reading.keys)
            for namespace in (*reading.namespaces, *([own_namespace] if reading.own_namespace else ())):
                self._read(namespace, reading.keys)

    def _read(self, namespace: str, keys: Collection[str]) -> None:
        """Keys of pods in one namespace are read; no keys at all still tells its pods from others."""
        known = self._in_namespace.get(namespace)
        if known is None or not known.issuperset(keys):
            self._in_namespace[namespace] = {*(known or ()), *keys}
            self._changed()

    def _read_everywhere(self, keys: Collection[str]) -> None:
        if self._everywhere is None or not self._everywhere.issuperset(keys):
            self._everywhere = {*(self._everywhere or ()), *keys}
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._keys.clear()


class PodClasses:
    """Interned classes; they live as long as somebody holds one."""

    __slots__ = ("_classes", "_last", "_like_it", "_locks", "_made", "interest", "shapes")

    def __init__(self, shapes: Shapes, locks: QueueLocks) -> None:
        self.shapes = shapes
        self.interest = ReadLabelKeys()
        self._locks = locks
        self._classes: WeakValueDictionary[Key, PodClass] = WeakValueDictionary()
        self._made = 0
        self._last: tuple[Pod, PodClass, int] | None = None
        """The pod asked about last, its class, and the version then: the next one is often like it."""
        self._like_it: dict[str | None, PodClass] = {}
        """By tenancy, the classes of pods that are like it otherwise."""

    @property
    def version(self) -> int:
        """Changes when classes given out before may have become too wide."""
        return self.interest.version + self._locks.version

    def note(self, shape: Shape, namespace: str) -> None:
        """A pod of this shape exists or is to be placed: what its selectors read matters from now on."""
        if shape.readings:
            self.interest.note(shape, namespace)

    def of(self, pod: Pod, shape: Shape | None = None) -> PodClass:
        """The class of a pod, at the present version."""
        if shape is not None:
            return self._of(pod, shape)
        last = self._last
        if last is None or last[2] != self.version or not _surely_alike(pod, last[0]):
            found = self._of(pod, self.shapes.of(pod))
            self._last = (pod, found, self.version)
            self._like_it = {found.queue_lock_class: found}
            return found
        if self._locks.version == 0:  # nothing was ever locked, so that queues tell no pods apart
            return last[1]
        tenancy = self._locks.lock_class_of(pod)
        alike = self._like_it.get(tenancy)
        if alike is None:
            alike = self._like_it[tenancy] = self._in(tenancy, last[1])
        return alike

    def _of(self, pod: Pod, shape: Shape) -> PodClass:
        namespace = pod.metadata.namespace or ""
        self.note(shape, namespace)
        keys = self.interest.keys(namespace)
        labels = project(pod.metadata.labels or {}, keys) if keys else ()
        local = namespace if shape.local or keys is not None else None
        return self._intern(shape, local, labels, self._locks.lock_class_of(pod))

    def _intern(self, shape: Shape, namespace: str | None, labels: Projection, tenancy: str | None) -> PodClass:
        key = (shape.number, namespace, labels, tenancy)
        found = self._classes.get(key)
        if found is None:
            base = self._intern(shape.base, namespace, labels, tenancy) if shape.base is not shape else None
            unlocked = self._intern(shape, namespace, labels, None) if tenancy is not None else None
            found = self._classes[key] = PodClass(self._made, key, shape, base, unlocked)
            self._made += 1
        return found

    def _in(self, tenancy: str | None, pod_class: PodClass) -> PodClass:
        """The class of pods that differ in their tenancy alone."""
        return self._intern(pod_class.shape, pod_class.namespace, pod_class.labels, tenancy)


def _surely_alike(one: Pod, other: Pod) -> bool:
    mine, others = one.metadata, other.metadata
    return mine.labels == others.labels and mine.namespace == others.namespace and are_surely_alike(one, other)


def project(labels: dict[str, str], keys: Iterable[str]) -> Projection:
    """The labels somebody reads, by key."""
    return tuple((key, labels[key]) for key in keys if key in labels)
