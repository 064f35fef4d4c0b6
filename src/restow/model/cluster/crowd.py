"""The crowd: which pods are where, by the audiences that others speak about, and what they themselves ask of others.

Goes in: occupants as they come to rows and leave them. Comes out, as sums per row that are kept up to date:

    headcount   how many pods of an audience are there, with or without those that are leaving
    stance      how much the pods there want, or do not want, pods of an audience near them

Pods with equal labels and namespace that ask the same of others form a group, for which all that is worked out once. A
pod then costs the sums its group contributes to, whatever the number of nodes, pods and audiences. Headcounts are made
when first asked for. When there are too many, all are dropped and `version` changes: holders ask again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from restow.model.cluster.audience import Audience, AudienceIndex, Audiences, Labels, belongs, of_term, required_label
from restow.model.cluster.namespaces import Namespaces
from restow.model.cluster.seat import fold_label_keys
from restow.model.cluster.shapes import Shape
from restow.model.cluster.undo import UndoLog
from restow.model.objects import PodAffinity, PodSpec
from restow.model.selectors import SelectorError

if TYPE_CHECKING:
    from restow.model.cluster.domains import DomainSums
    from restow.model.cluster.occupancy import Occupant

_HEADCOUNTS = 2048
_IDLE_GROUPS = 1024


class RowSums:
    """A sum per row, zeros left out, and the sums per domain made of it."""

    __slots__ = ("by_row", "listeners")

    def __init__(self) -> None:
        self.by_row: dict[int, int] = {}
        self.listeners: list[DomainSums] = []

    def add(self, row: int, amount: int) -> None:
        """Change the sum of a row."""
        total = self.by_row.get(row, 0) + amount
        if total:
            self.by_row[row] = total
        else:
            self.by_row.pop(row, None)
        for listener in self.listeners:
            listener.add(row, amount)


class Headcount(RowSums):
    """How many pods that belong to all of these audiences."""

    __slots__ = ("audiences", "staying")

    def __init__(self, audiences: Audiences, staying: bool) -> None:
        super().__init__()
        self.audiences = audiences
        self.staying = staying


class Kind(enum.Enum):
    """How a pod stands towards an audience, within a topology domain."""

    REPELS = "required anti-affinity"
    NEEDS = "required affinity"
    PREFERS = "preferred affinity, and with negative amounts preferred anti-affinity"


class View(msgspec.Struct, frozen=True):
    """What a stance is about."""

    kind: Kind
    audience: Audience
    topology_key: str


class Stance(RowSums):
    """How many pods hold a view, or for preferences the sum of their weights."""

    __slots__ = ("groups", "view")

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view
        self.groups = 0


GroupKey = tuple[Shape | None, str, tuple[tuple[str, str], ...], bool]
"""What its pods ask of others, by their shape; their namespace; their labels, by key; whether they are leaving."""


class Group:
    """Pods that nobody here can tell apart."""

    __slots__ = ("headcounts", "key", "labels", "leaving", "namespace", "rows", "speaking", "stances")

    def __init__(self, key: GroupKey, labels: Labels) -> None:
        self.key = key
        self.speaking, self.namespace, _, self.leaving = key
        self.labels = labels
        self.rows: dict[int, int] = {}
        self.headcounts: list[Headcount] = []
        self.stances: list[tuple[Stance, int]] = []


class Crowd:
    def __init__(self, log: UndoLog, namespaces: Namespaces) -> None:
        self._log = log
        self._namespaces = namespaces
        self._groups: dict[GroupKey, Group] = {}
        self._in_namespace: dict[str, dict[Group, None]] = {}
        self._shelves: dict[tuple[str, str], dict[str, dict[Group, None]]] = {}
        """By namespace and label key, and then by value; made for the keys that audiences ask for."""
        self._last: Group | None = None
        self._idle: dict[Group, None] = {}
        self._headcounts: dict[tuple[Audiences, bool], Headcount] = {}
        self._counted: AudienceIndex[Headcount] = AudienceIndex()
        self._stances: dict[View, Stance] = {}
        self._held: AudienceIndex[Stance] = AudienceIndex()
        self.version = 0
        """Changes when `headcount` or `stances_towards` may give other answers than before."""
        namespaces.on_change(self._namespace_changed)

    # --- reading ------------------------------------------------------------------------------------------------------

    def headcount(self, audiences: Audiences, *, staying: bool = False) -> Headcount:
        """How many pods belong to all of these audiences, per row."""
        found = self._headcounts.get((audiences, staying))
        if found is None:
            found = self._make_headcount(audiences, staying)
        return found

    def stances_towards(self, namespace: str, labels: Labels) -> list[Stance]:
        """Everything that pods here ask about a pod with these labels."""
        return self._held.find(namespace, labels, self._namespaces.labels(namespace))

    # --- writing ------------------------------------------------------------------------------------------------------

    def come(self, row: int, occupant: Occupant) -> None:
        """Count an occupant on a row."""
        self._count(row, self._group_of(occupant), 1)
        if self._log.recording:
            self._log.record(self.leave, row, occupant)

    def leave(self, row: int, occupant: Occupant) -> None:
        """The inverse of `come`."""
        self._count(row, self._group_of(occupant), -1)
        self._log.record(self.come, row, occupant)

    def change(self, row: int, old: Occupant, new: Occupant) -> None:
        """`leave` and `come` of an occupant that stays and looks different; what both count for is not touched."""
        before, after = self._group_of(old), self._group_of(new)
        if before is after:
            return
        self._note(row, after, 1)
        self._note(row, before, -1)
        for headcount in before.headcounts:
            if headcount not in after.headcounts:
                headcount.add(row, -1)
        for headcount in after.headcounts:
            if headcount not in before.headcounts:
                headcount.add(row, 1)
        if before.stances != after.stances:
            for stance, amount in before.stances:
                stance.add(row, -amount)
            for stance, amount in after.stances:
                stance.add(row, amount)
        self._log.record(self.change, row, new, old)

    def _count(self, row: int, group: Group, sign: int) -> None:
        self._note(row, group, sign)
        for headcount in group.headcounts:
            headcount.add(row, sign)
        for stance, amount in group.stances:
            stance.add(row, sign * amount)

    def _note(self, row: int, group: Group, sign: int) -> None:
        number = group.rows.get(row, 0) + sign
        if number:
            if self._idle:
                self._idle.pop(group, None)
            group.rows[row] = number
        else:
            del group.rows[row]
            if not group.rows:
                self._rest(group)

    # --- groups -------------------------------------------------------------------------------------------------------

    def _group_of(self, occupant: Occupant) -> Group:
        metadata = occupant.pod.metadata
        labels = metadata.labels or {}
        namespace = metadata.namespace or ""
        speaking = occupant.shape if occupant.shape.readings else None
        last = self._last  # who comes next is often like the one before
        if (
            last is not None
            and last.speaking is speaking
            and last.labels == labels
            and last.namespace == namespace
            and last.leaving == occupant.leaving
        ):
            return last
        key = (speaking, namespace, tuple(sorted(labels.items())), occupant.leaving)
        group = self._groups.get(key)
        if group is None:
            group = self._make_group(Group(key, labels), occupant.shape)
        self._last = group
        return group

    def _make_group(self, group: Group, shape: Shape) -> Group:
        self._groups[group.key] = group
        self._in_namespace.setdefault(group.namespace, {})[group] = None
        for key, value in group.labels.items() if self._shelves else ():
            shelf = self._shelves.get((group.namespace, key))
            if shelf is not None:
                shelf.setdefault(value, {})[group] = None
        found = self._counted.find(group.namespace, group.labels, self._namespaces.labels(group.namespace))
        group.headcounts = [one for one in found if not (one.staying and group.leaving)]
        group.stances = [(self._stance(view), amount) for view, amount in views(shape, group.namespace, group.labels)]
        for stance in dict.fromkeys(stance for stance, _ in group.stances):
            stance.groups += 1
        return group

    def _rest(self, group: Group) -> None:
        """The last pod of a group left; the group is kept for a while, for the next one may come soon."""
        self._idle[group] = None
        if len(self._idle) > _IDLE_GROUPS:
            self._drop(next(iter(self._idle)))

    def _drop(self, group: Group) -> None:
        del self._idle[group]
        del self._groups[group.key]
        self._last = None
        del self._in_namespace[group.namespace][group]
        for key, value in group.labels.items():
            shelf = self._shelves.get((group.namespace, key))
            if shelf is not None:
                del shelf[value][group]
                if not shelf[value]:
                    del shelf[value]
        if not self._in_namespace[group.namespace]:
            del self._in_namespace[group.namespace]
        for stance in dict.fromkeys(stance for stance, _ in group.stances):
            stance.groups -= 1
            if not stance.groups:
                del self._stances[stance.view]
                self._held.remove(stance, (stance.view.audience,))

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _stance(self, view: View) -> Stance:
        stance = self._stances.get(view)
        if stance is None:
            stance = self._stances[view] = Stance(view)
            self._held.add(stance, (view.audience,))
            self.version += 1
        return stance

    def _make_headcount(self, audiences: Audiences, staying: bool) -> Headcount:
        if len(self._headcounts) >= _HEADCOUNTS:
            self._drop_headcounts()
        headcount = self._headcounts[audiences, staying] = Headcount(audiences, staying)
        self._counted.add(headcount, audiences)
        for group in self._candidates(audiences[0]):
            self._review(headcount, group)
        return headcount

    def _candidates(self, audience: Audience) -> Iterator[Group]:
        selective, label = not audience.namespace_selector.nothing, required_label(audience)
        for namespace in self._in_namespace if selective else audience.namespaces:
            if label is None:
                yield from self._in_namespace.get(namespace, ())
            else:
                yield from self._shelf(namespace, label[0]).get(label[1], ())

    def _shelf(self, namespace: str, key: str) -> dict[str, dict[Group, None]]:
        """The groups of a namespace by the value of a label, so that an audience costs those it may be about."""
        shelf = self._shelves.get((namespace, key))
        if shelf is None:
            shelf = self._shelves[namespace, key] = {}
            for group in self._in_namespace.get(namespace, ()):
                if key in group.labels:
                    shelf.setdefault(group.labels[key], {})[group] = None
        return shelf

    def _review(self, headcount: Headcount, group: Group) -> None:
        """Make a group contribute to a headcount, or not, as its labels and its namespace's now say."""
        namespace_labels = self._namespaces.labels(group.namespace)
        counts = belongs(headcount.audiences, group.namespace, group.labels, namespace_labels)
        counts = counts and not (headcount.staying and group.leaving)
        if counts == (headcount in group.headcounts):
            return
        if counts:
            group.headcounts.append(headcount)
        else:
            group.headcounts.remove(headcount)
        for row, number in group.rows.items():
            headcount.add(row, number if counts else -number)

    def _drop_headcounts(self) -> None:
        self._headcounts.clear()
        self._counted.clear()
        self._shelves.clear()
        for group in self._groups.values():
            group.headcounts.clear()
        for stance in self._stances.values():
            stance.listeners.clear()
        self.version += 1

    def _namespace_changed(self, name: str) -> None:
        selective = [one for one in self._headcounts.values() if any(_is_selective(each) for each in one.audiences)]
        for group in self._in_namespace.get(name, ()):
            for headcount in selective:
                self._review(headcount, group)
        self.version += 1


def _is_selective(audience: Audience) -> bool:
    return not audience.namespace_selector.nothing


def views(shape: Shape, namespace: str, labels: Labels) -> list[tuple[View, int]]:
    """What pods of a shape ask of others, with amounts; a term that cannot be read asks for nothing."""
    affinity = shape.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return []
    return list(_views(fold_label_keys(shape.spec, dict(labels)), namespace))


def _views(spec: PodSpec, namespace: str) -> Iterator[tuple[View, int]]:
    if spec.affinity is None:
        return
    yield from _views_of_side(spec.affinity.pod_affinity, Kind.NEEDS, 1, namespace)
    yield from _views_of_side(spec.affinity.pod_anti_affinity, Kind.REPELS, -1, namespace)


def _views_of_side(side: PodAffinity | None, required: Kind, sign: int, namespace: str) -> Iterator[tuple[View, int]]:
    if side is None:
        return
    terms = [(required, term, 1) for term in side.required or ()]
    terms += [(Kind.PREFERS, one.pod_affinity_term, sign * one.weight) for one in side.preferred or ()]
    for kind, term, amount in terms:
        try:
            yield View(kind, of_term(term, namespace), term.topology_key), amount
        except SelectorError:
            continue
