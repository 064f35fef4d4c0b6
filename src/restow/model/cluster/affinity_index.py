"""The affinity index: how many pods of a selector group are on each row, and which affinity terms the pods there have.

Goes in: occupants as they come to rows and leave them. Comes out, as sums per row that are kept up to date:

    PodCount         how many pods of a selector group are there, with or without terminating ones
    AffinityWeight   how many pods there have an affinity term, or the sum of the weights of a preferred one

Pods with equal labels and namespace that have the same terms form a group of alike pods, for which everything is worked
out once. A pod then costs the sums that its group contributes to, whatever the number of nodes, pods and selector
groups. Pod counts are made when they are first asked for. When there are too many, all are dropped and `version`
changes: their holders ask again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from restow.model.cluster.namespaces import Namespaces
from restow.model.cluster.pod_shapes import Shape
from restow.model.cluster.selector_group import (
    Labels,
    SelectorGroup,
    SelectorGroupIndex,
    SelectorGroups,
    belongs_to_all,
    required_label,
    selector_group_of_term,
)
from restow.model.cluster.undo_log import UndoLog
from restow.model.match_label_keys import fold_label_keys
from restow.model.objects import PodAffinity, PodSpec
from restow.model.selectors import SelectorError

if TYPE_CHECKING:
    from restow.model.cluster.occupancy import Occupant
    from restow.model.cluster.topology_domains import DomainSums

_MAX_POD_COUNTS = 2048
_MAX_IDLE_GROUPS = 1024


class RowSums:
    """A sum per row, without zeros, and the sums per topology domain that are derived from it."""

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


class PodCount(RowSums):
    """How many pods belong to all of these selector groups, per row."""

    __slots__ = ("selector_groups", "without_leaving")

    def __init__(self, selector_groups: SelectorGroups, without_leaving: bool) -> None:
        super().__init__()
        self.selector_groups = selector_groups
        self.without_leaving = without_leaving


class TermKind(enum.Enum):
    """What a pod says about the pods of a selector group in its topology domain."""

    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    REQUIRED_AFFINITY = "required affinity"
    PREFERRED = "preferred affinity, and with negative amounts preferred anti-affinity"


class AffinityTerm(msgspec.Struct, frozen=True):
    """An affinity term of a pod, parsed: equal for terms that mean the same."""

    kind: TermKind
    selector_group: SelectorGroup
    topology_key: str


class AffinityWeight(RowSums):
    """How many pods have a term, or for preferred terms the sum of their weights, per row."""

    __slots__ = ("groups", "term")

    def __init__(self, term: AffinityTerm) -> None:
        super().__init__()
        self.term = term
        self.groups = 0


GroupKey = tuple[Shape | None, str, tuple[tuple[str, str], ...], bool]
"""The shape that has their terms (None without any), the namespace, the labels by key, whether they terminate."""


class AlikePods:
    """Pods that are equal to every selector group and have equal affinity terms."""

    __slots__ = ("affinity_weights", "key", "labels", "leaving", "namespace", "pod_counts", "rows", "shape")

    def __init__(self, key: GroupKey, labels: Labels) -> None:
        self.key = key
        self.shape, self.namespace, _, self.leaving = key
        self.labels = labels
        self.rows: dict[int, int] = {}
        self.pod_counts: list[PodCount] = []
        self.affinity_weights: list[tuple[AffinityWeight, int]] = []


class AffinityIndex:
    def __init__(self, log: UndoLog, namespaces: Namespaces) -> None:
        self._log = log
        self._namespaces = namespaces
        self._groups: dict[GroupKey, AlikePods] = {}
        self._in_namespace: dict[str, dict[AlikePods, None]] = {}
        self._by_label: dict[tuple[str, str], dict[str, dict[AlikePods, None]]] = {}
        """By namespace and label key, and then by value; made for the keys that selector groups require."""
        self._last_group: AlikePods | None = None
        self._idle_groups: dict[AlikePods, None] = {}
        self._pod_counts: dict[tuple[SelectorGroups, bool], PodCount] = {}
        self._counts_by_group: SelectorGroupIndex[PodCount] = SelectorGroupIndex()
        self._weights: dict[AffinityTerm, AffinityWeight] = {}
        self._weights_by_group: SelectorGroupIndex[AffinityWeight] = SelectorGroupIndex()
        self.version = 0
        """Changes when `pod_count` or `weights_about` may give other objects than before."""
        namespaces.on_change(self._namespace_changed)

    # --- reading ------------------------------------------------------------------------------------------------------

    def pod_count(self, selector_groups: SelectorGroups, *, without_leaving: bool = False) -> PodCount:
        """How many pods belong to all of these selector groups, per row; kept up to date."""
        count = self._pod_counts.get((selector_groups, without_leaving))
        if count is None:
            count = self._make_pod_count(selector_groups, without_leaving)
        return count

    def weights_about(self, namespace: str, labels: Labels) -> list[AffinityWeight]:
        """The affinity terms, of pods on any row, that select a pod with these labels."""
        return self._weights_by_group.find(namespace, labels, self._namespaces.labels(namespace))

    # --- writing ------------------------------------------------------------------------------------------------------

    def add_pod(self, row: int, occupant: Occupant) -> None:
        """Count an occupant on a row."""
        self._count_pods(row, self._group_of(occupant), 1)
        if self._log.recording:
            self._log.record(self.remove_pod, row, occupant)

    def remove_pod(self, row: int, occupant: Occupant) -> None:
        """The inverse of `add_pod`."""
        self._count_pods(row, self._group_of(occupant), -1)
        self._log.record(self.add_pod, row, occupant)

    def replace_pod(self, row: int, old: Occupant, new: Occupant) -> None:
        """`remove_pod` and `add_pod` of an occupant with other labels; sums that count both are not touched."""
        before, after = self._group_of(old), self._group_of(new)
        if before is after:
            return
        self._note_row(row, after, 1)
        self._note_row(row, before, -1)
        # Sums that both contribute to are left alone: each change would make plugins work out a domain again.
        for count in before.pod_counts:
            if count not in after.pod_counts:
                count.add(row, -1)
        for count in after.pod_counts:
            if count not in before.pod_counts:
                count.add(row, 1)
        if before.affinity_weights != after.affinity_weights:
            for weight, amount in before.affinity_weights:
                weight.add(row, -amount)
            for weight, amount in after.affinity_weights:
                weight.add(row, amount)
        self._log.record(self.replace_pod, row, new, old)

    def _count_pods(self, row: int, group: AlikePods, sign: int) -> None:
        self._note_row(row, group, sign)
        for count in group.pod_counts:
            count.add(row, sign)
        for weight, amount in group.affinity_weights:
            weight.add(row, sign * amount)

    def _note_row(self, row: int, group: AlikePods, sign: int) -> None:
        number = group.rows.get(row, 0) + sign
        if number:
            if self._idle_groups:
                self._idle_groups.pop(group, None)
            group.rows[row] = number
        else:
            del group.rows[row]
            if not group.rows:
                self._keep_idle(group)

    # --- groups -------------------------------------------------------------------------------------------------------

    def _group_of(self, occupant: Occupant) -> AlikePods:
        metadata = occupant.pod.metadata
        labels = metadata.labels or {}
        namespace = metadata.namespace or ""
        shape = occupant.shape if occupant.shape.selector_scopes else None
        last = self._last_group  # the next pod is often like the last one, and then no key is made
        if (
            last is not None
            and last.shape is shape
            and last.labels == labels
            and last.namespace == namespace
            and last.leaving == occupant.leaving
        ):
            return last
        key = (shape, namespace, tuple(sorted(labels.items())), occupant.leaving)
        group = self._groups.get(key)
        if group is None:
            group = self._make_group(AlikePods(key, labels), occupant.shape)
        self._last_group = group
        return group

    def _make_group(self, group: AlikePods, shape: Shape) -> AlikePods:
        self._groups[group.key] = group
        self._in_namespace.setdefault(group.namespace, {})[group] = None
        for key, value in group.labels.items() if self._by_label else ():
            by_value = self._by_label.get((group.namespace, key))
            if by_value is not None:
                by_value.setdefault(value, {})[group] = None
        counts = self._counts_by_group.find(group.namespace, group.labels, self._namespaces.labels(group.namespace))
        group.pod_counts = [count for count in counts if not (count.without_leaving and group.leaving)]
        group.affinity_weights = [
            (self._weight_of(term), amount) for term, amount in affinity_terms_of(shape, group.namespace, group.labels)
        ]
        for weight in dict.fromkeys(weight for weight, _ in group.affinity_weights):
            weight.groups += 1
        return group

    def _keep_idle(self, group: AlikePods) -> None:
        """Keep a group without pods for a while: the next pod may come soon, and to make the group again costs more."""
        self._idle_groups[group] = None
        if len(self._idle_groups) > _MAX_IDLE_GROUPS:
            self._drop_group(next(iter(self._idle_groups)))

    def _drop_group(self, group: AlikePods) -> None:
        del self._idle_groups[group]
        del self._groups[group.key]
        self._last_group = None
        del self._in_namespace[group.namespace][group]
        for key, value in group.labels.items():
            by_value = self._by_label.get((group.namespace, key))
            if by_value is not None:
                del by_value[value][group]
                if not by_value[value]:
                    del by_value[value]
        if not self._in_namespace[group.namespace]:
            del self._in_namespace[group.namespace]
        for weight in dict.fromkeys(weight for weight, _ in group.affinity_weights):
            weight.groups -= 1
            if not weight.groups:
                del self._weights[weight.term]
                self._weights_by_group.remove(weight, (weight.term.selector_group,))

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _weight_of(self, term: AffinityTerm) -> AffinityWeight:
        weight = self._weights.get(term)
        if weight is None:
            weight = self._weights[term] = AffinityWeight(term)
            self._weights_by_group.add(weight, (term.selector_group,))
            self.version += 1
        return weight

    def _make_pod_count(self, selector_groups: SelectorGroups, without_leaving: bool) -> PodCount:
        if len(self._pod_counts) >= _MAX_POD_COUNTS:
            self._drop_pod_counts()
        count = self._pod_counts[selector_groups, without_leaving] = PodCount(selector_groups, without_leaving)
        self._counts_by_group.add(count, selector_groups)
        for group in self._groups_that_may_match(selector_groups[0]):
            self._recount(count, group)
        return count

    def _groups_that_may_match(self, selector_group: SelectorGroup) -> Iterator[AlikePods]:
        selective, label = not selector_group.namespace_selector.nothing, required_label(selector_group)
        for namespace in self._in_namespace if selective else selector_group.namespaces:
            if label is None:
                yield from self._in_namespace.get(namespace, ())
            else:
                yield from self._pods_by_label_value(namespace, label[0]).get(label[1], ())

    def _pods_by_label_value(self, namespace: str, key: str) -> dict[str, dict[AlikePods, None]]:
        """The groups of a namespace by the value of a label, so that a new pod count reads only those it may count."""
        by_value = self._by_label.get((namespace, key))
        if by_value is None:
            by_value = self._by_label[namespace, key] = {}
            for group in self._in_namespace.get(namespace, ()):
                if key in group.labels:
                    by_value.setdefault(group.labels[key], {})[group] = None
        return by_value

    def _recount(self, count: PodCount, group: AlikePods) -> None:
        """Let a group contribute to a count, or not, as its labels and those of its namespace say now."""
        namespace_labels = self._namespaces.labels(group.namespace)
        counts = belongs_to_all(count.selector_groups, group.namespace, group.labels, namespace_labels)
        counts = counts and not (count.without_leaving and group.leaving)
        if counts == (count in group.pod_counts):
            return
        if counts:
            group.pod_counts.append(count)
        else:
            group.pod_counts.remove(count)
        for row, number in group.rows.items():
            count.add(row, number if counts else -number)

    def _drop_pod_counts(self) -> None:
        self._pod_counts.clear()
        self._counts_by_group.clear()
        self._by_label.clear()
        for group in self._groups.values():
            group.pod_counts.clear()
        for weight in self._weights.values():
            weight.listeners.clear()
        self.version += 1

    def _namespace_changed(self, name: str) -> None:
        selective = [
            count
            for count in self._pod_counts.values()
            if any(_selects_namespaces(each) for each in count.selector_groups)
        ]
        for group in self._in_namespace.get(name, ()):
            for count in selective:
                self._recount(count, group)
        self.version += 1


def _selects_namespaces(selector_group: SelectorGroup) -> bool:
    return not selector_group.namespace_selector.nothing


def affinity_terms_of(shape: Shape, namespace: str, labels: Labels) -> list[tuple[AffinityTerm, int]]:
    """The affinity terms of pods of a shape, with what each adds to a sum; a term with an invalid selector has none."""
    affinity = shape.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return []
    return list(_terms_of_spec(fold_label_keys(shape.spec, dict(labels)), namespace))


def _terms_of_spec(spec: PodSpec, namespace: str) -> Iterator[tuple[AffinityTerm, int]]:
    if spec.affinity is None:
        return
    yield from _terms_of_side(spec.affinity.pod_affinity, TermKind.REQUIRED_AFFINITY, 1, namespace)
    yield from _terms_of_side(spec.affinity.pod_anti_affinity, TermKind.REQUIRED_ANTI_AFFINITY, -1, namespace)


def _terms_of_side(
    side: PodAffinity | None, required: TermKind, sign: int, namespace: str
) -> Iterator[tuple[AffinityTerm, int]]:
    if side is None:
        return
    terms = [(required, term, 1) for term in side.required or ()]
    terms += [
        (TermKind.PREFERRED, preference.pod_affinity_term, sign * preference.weight)
        for preference in side.preferred or ()
    ]
    for kind, term, amount in terms:
        try:
            yield AffinityTerm(kind, selector_group_of_term(term, namespace), term.topology_key), amount
        except SelectorError:
            continue
