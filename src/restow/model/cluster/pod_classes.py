"""Equivalence classes: pods that are equal in everything that scheduling reads.

    class = shape + the labels that selectors read + the namespace, where it matters + the lock class, while nodes are
            locked for queues

Labels are projected onto the keys that some selector reads, so that a pod index or a template hash does not make every
pod a class of its own. `ReadLabelKeys` is the set of those keys, per namespace: a selector in one namespace says
nothing about pods of another. When it grows, `version` changes and `of` may give a pod another, narrower class than
before; a holder of a class from an older version must ask again. Keys that no selector reads any more keep classes
finer than needed, which is never wrong; they are forgotten when half of the shapes that read any may be gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from weakref import WeakKeyDictionary, WeakValueDictionary

from restow.model.cluster.pod_shapes import Shape, Shapes, are_surely_alike
from restow.model.cluster.queue_locks import QueueLocks
from restow.model.objects import Pod

Projection = tuple[tuple[str, str], ...]
Key = tuple[int, str | None, Projection, str | None]
"""What tells classes apart: the number of their shape, namespace, labels, lock class (see `queue_locks`)."""

_MORE_SHAPES = 64
"""How many more shapes with selectors may come before dropped ones are looked for."""


class PodClass:
    """Pods that every filter and score treats alike. Compared by identity; a `number` is never used again."""

    __slots__ = ("__weakref__", "_base", "_unlocked", "labels", "namespace", "number", "queue_lock_class", "shape")

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
        """The class of such pods without volumes: the same for all classes that differ in their volumes only."""
        return self._base or self

    @property
    def unlocked(self) -> PodClass:
        """The class of such pods without any locked nodes: the same for all classes that differ in their queues
        only."""
        return self._unlocked or self

    def __repr__(self) -> str:
        return f"PodClass({self.number}, {self.shape!r}, {self.namespace!r}, {dict(self.labels)})"


class ReadLabelKeys:
    """Which label keys of pods selectors read, per namespace of those pods."""

    __slots__ = ("_everywhere", "_in_namespace", "_keys", "_next_review", "_shape_count", "_shapes", "version")

    def __init__(self) -> None:
        self.version = 0
        self._shapes: WeakKeyDictionary[Shape, set[str]] = WeakKeyDictionary()
        """The shapes with selectors, and the namespaces of their pods."""
        self._shape_count, self._next_review = 0, _MORE_SHAPES
        self._everywhere: set[str] | None = None
        self._in_namespace: dict[str, set[str]] = {}
        self._keys: dict[str, tuple[str, ...] | None] = {}

    def note(self, shape: Shape, namespace: str) -> None:
        """A pod of this shape is in this namespace: what its selectors read counts for as long as the shape lives."""
        known = self._shapes.get(shape)
        if known is not None and namespace in known:
            return
        self._shapes.setdefault(shape, set()).add(namespace)
        self._shape_count += 1
        if self._shape_count > self._next_review:
            self._forget_dropped_shapes()
        else:
            self._add(shape, namespace)

    def keys(self, namespace: str) -> tuple[str, ...] | None:
        """The keys read of pods in a namespace, sorted; None when no selector looks there."""
        if namespace not in self._keys:
            local = self._in_namespace.get(namespace)
            read = local is not None or self._everywhere is not None
            self._keys[namespace] = tuple(sorted({*(local or ()), *(self._everywhere or ())})) if read else None
        return self._keys[namespace]

    def _forget_dropped_shapes(self) -> None:
        """Forget the keys that only dropped shapes read; again once there may be twice as many shapes as are left."""
        shapes = list(self._shapes.items())
        self._shape_count = sum(len(namespaces) for _, namespaces in shapes)
        self._next_review = 2 * self._shape_count + _MORE_SHAPES
        self._everywhere, self._in_namespace = None, {}
        self._changed()
        for shape, namespaces in shapes:
            for namespace in namespaces:
                self._add(shape, namespace)

    def _add(self, shape: Shape, own_namespace: str) -> None:
        for reading in shape.selector_scopes:
            if reading.all_namespaces:
                self._read_everywhere(reading.keys)
            for namespace in (*reading.namespaces, *([own_namespace] if reading.own_namespace else ())):
                self._read(namespace, reading.keys)

    def _read(self, namespace: str, keys: Collection[str]) -> None:
        """Keys of pods in one namespace are read. Even without keys, pods of that namespace differ from others now."""
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
    """Interned classes; each lives as long as it is held."""

    __slots__ = ("_alike_by_lock_class", "_classes", "_last", "_locks", "_made", "interest", "shapes")

    def __init__(self, shapes: Shapes, locks: QueueLocks) -> None:
        self.shapes = shapes
        self.interest = ReadLabelKeys()
        self._locks = locks
        self._classes: WeakValueDictionary[Key, PodClass] = WeakValueDictionary()
        self._made = 0
        self._last: tuple[Pod, PodClass, int] | None = None
        """The last pod, its class, and the version then: the next pod is often like it."""
        self._alike_by_lock_class: dict[str | None, PodClass] = {}
        """By lock class, the classes of pods that are like the last pod otherwise."""

    @property
    def version(self) -> int:
        """Changes when classes given out before may have become too wide."""
        return self.interest.version + self._locks.version

    def note(self, shape: Shape, namespace: str) -> None:
        """A pod of this shape exists or is to be placed: what its selectors read counts from now on."""
        if shape.selector_scopes:
            self.interest.note(shape, namespace)

    def of(self, pod: Pod, shape: Shape | None = None) -> PodClass:
        """The class of a pod, as of the present version."""
        if shape is not None:
            return self._class_of(pod, shape)
        # Pending pods come in runs of one workload. To compare a pod with the last one costs a tenth of its shape.
        last = self._last
        if last is None or last[2] != self.version or not _are_surely_alike(pod, last[0]):
            pod_class = self._class_of(pod, self.shapes.of(pod))
            self._last = (pod, pod_class, self.version)
            self._alike_by_lock_class = {pod_class.queue_lock_class: pod_class}
            return pod_class
        if self._locks.version == 0:  # no node was ever locked, so pods of different queues are of one class
            return last[1]
        lock_class = self._locks.lock_class_of(pod)
        alike = self._alike_by_lock_class.get(lock_class)
        if alike is None:
            alike = self._alike_by_lock_class[lock_class] = self._with_lock_class(lock_class, last[1])
        return alike

    def _class_of(self, pod: Pod, shape: Shape) -> PodClass:
        namespace = pod.metadata.namespace or ""
        self.note(shape, namespace)
        keys = self.interest.keys(namespace)
        labels = project_labels(pod.metadata.labels or {}, keys) if keys else ()
        local = namespace if shape.is_namespace_bound or keys is not None else None
        return self._intern(shape, local, labels, self._locks.lock_class_of(pod))

    def _intern(self, shape: Shape, namespace: str | None, labels: Projection, lock_class: str | None) -> PodClass:
        key = (shape.number, namespace, labels, lock_class)
        pod_class = self._classes.get(key)
        if pod_class is None:
            base = self._intern(shape.base, namespace, labels, lock_class) if shape.base is not shape else None
            unlocked = self._intern(shape, namespace, labels, None) if lock_class is not None else None
            pod_class = self._classes[key] = PodClass(self._made, key, shape, base, unlocked)
            self._made += 1
        return pod_class

    def _with_lock_class(self, lock_class: str | None, pod_class: PodClass) -> PodClass:
        """The class of pods that differ in their lock class only."""
        return self._intern(pod_class.shape, pod_class.namespace, pod_class.labels, lock_class)


def _are_surely_alike(pod: Pod, other: Pod) -> bool:
    mine, others = pod.metadata, other.metadata
    return mine.labels == others.labels and mine.namespace == others.namespace and are_surely_alike(pod, other)


def project_labels(labels: dict[str, str], keys: Iterable[str]) -> Projection:
    """The labels with these keys, by key."""
    return tuple((key, labels[key]) for key in keys if key in labels)
