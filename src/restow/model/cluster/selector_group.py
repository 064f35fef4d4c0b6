"""Selector groups: the pods that an affinity term or a spread constraint selects, and which of them a pod belongs to.

Goes in: an affinity term or a spread constraint, with the namespace of the pod that has it. Comes out: a
`SelectorGroup`, equal for terms that mean the same. `SelectorGroupIndex` finds, among many groups, those that a pod
with given labels belongs to, by a lookup under its namespace and labels: groups of other pods cost nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from restow.model.objects import PodAffinityTerm, TopologySpreadConstraint
from restow.model.selectors import NOTHING, LabelSelector, Requirement, label_selector

Labels = Mapping[str, str]
E = TypeVar("E", bound=Hashable)


class SelectorGroup(msgspec.Struct, frozen=True, gc=False):
    """Pods with certain labels, in the named namespaces and in those that the namespace selector selects."""

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = NOTHING

    def includes(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod in `namespace`, which has `namespace_labels`, belongs to the group."""
        here = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return here and self.selector.matches(labels)


SelectorGroups = tuple[SelectorGroup, ...]
"""Pods that belong to each of these groups."""


def selector_group_of_term(term: PodAffinityTerm, own_namespace: str) -> SelectorGroup:
    """Raises SelectorError."""
    named = term.namespaces or ([own_namespace] if term.namespace_selector is None else [])
    return SelectorGroup(label_selector(term.label_selector), frozenset(named), label_selector(term.namespace_selector))


def selector_group_of_constraint(constraint: TopologySpreadConstraint, own_namespace: str) -> SelectorGroup:
    """Raises SelectorError. As in kube-scheduler, an empty selector counts no pods."""
    selector = label_selector(constraint.label_selector)
    return SelectorGroup(NOTHING if selector.everything else selector, frozenset([own_namespace]))


_LookupKey = tuple[str | None, tuple[str, str] | None]
"""A namespace (None: any) and a label that every pod of the group has (None: there is no such label)."""


class SelectorGroupIndex(Generic[E]):
    """Entries listed under a namespace and a label that a pod must have to belong to their groups."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[_LookupKey, dict[E, SelectorGroups]] = {}

    def add(self, entry: E, groups: SelectorGroups) -> None:
        for place in _lookup_keys(groups[0]):
            self._entries.setdefault(place, {})[entry] = groups

    def remove(self, entry: E, groups: SelectorGroups) -> None:
        for place in _lookup_keys(groups[0]):
            del self._entries[place][entry]
            if not self._entries[place]:
                del self._entries[place]

    def find(self, namespace: str, labels: Labels, namespace_labels: Labels) -> list[E]:
        """The entries with groups that a pod belongs to."""
        entries: dict[E, None] = {}
        for where in (namespace, None):
            for label in (None, *labels.items()):
                for entry, groups in self._entries.get((where, label), {}).items():
                    if entry not in entries and belongs_to_all(groups, namespace, labels, namespace_labels):
                        entries[entry] = None
        return list(entries)

    def clear(self) -> None:
        self._entries.clear()


def belongs_to_all(groups: SelectorGroups, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
    """Whether a pod belongs to each of the groups; False for an empty tuple of groups."""
    return bool(groups) and all(group.includes(namespace, labels, namespace_labels) for group in groups)


def _lookup_keys(group: SelectorGroup) -> Iterator[_LookupKey]:
    if group.selector.nothing:
        return
    label = required_label(group)
    for namespace in sorted(group.namespaces):
        yield namespace, label
    if not group.namespace_selector.nothing:
        yield None, label


def required_label(group: SelectorGroup) -> tuple[str, str] | None:
    """A label that every pod of the group has; None if there is no such label."""
    required = (
        (requirement.key, requirement.values[0])
        for requirement in group.selector.requirements
        if _names_one_value(requirement)
    )
    return next(required, None)


def _names_one_value(requirement: Requirement) -> bool:
    return requirement.operator == "In" and len(requirement.values) == 1
