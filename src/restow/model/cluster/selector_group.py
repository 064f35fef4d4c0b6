"""Audiences: the pods that a term of one pod speaks about, and a quick way from a pod to the audiences it belongs to.

Goes in: an affinity term or a spread constraint, with the namespace of the pod that carries it. Comes out: an
`Audience`, equal for terms that mean the same. `AudienceIndex` finds, among many audiences, those that a pod with given
labels belongs to by looking under its namespace and labels, so audiences about other pods cost nothing.
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
    """Pods with certain labels, in the named namespaces and in those whose labels are selected."""

    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = NOTHING

    def includes(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether a pod in `namespace`, which has `namespace_labels`, belongs to it."""
        here = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return here and self.selector.matches(labels)


SelectorGroups = tuple[SelectorGroup, ...]
"""Pods that belong to each of these audiences."""


def selector_group_of_term(term: PodAffinityTerm, own_namespace: str) -> SelectorGroup:
    """Raises SelectorError."""
    named = term.namespaces or ([own_namespace] if term.namespace_selector is None else [])
    return SelectorGroup(label_selector(term.label_selector), frozenset(named), label_selector(term.namespace_selector))


def selector_group_of_constraint(constraint: TopologySpreadConstraint, own_namespace: str) -> SelectorGroup:
    """Raises SelectorError. A selector that selects everything counts nobody, as kube-scheduler has it."""
    selector = label_selector(constraint.label_selector)
    return SelectorGroup(NOTHING if selector.everything else selector, frozenset([own_namespace]))


_Place = tuple[str | None, tuple[str, str] | None]
"""A namespace (None: any) and a label that every pod of the audience has (None: there is no such label)."""


class SelectorGroupIndex(Generic[E]):
    """Entries filed under what a pod must have to concern them."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[_Place, dict[E, SelectorGroups]] = {}

    def add(self, entry: E, audiences: SelectorGroups) -> None:
        for place in _places(audiences[0]):
            self._entries.setdefault(place, {})[entry] = audiences

    def remove(self, entry: E, audiences: SelectorGroups) -> None:
        for place in _places(audiences[0]):
            del self._entries[place][entry]
            if not self._entries[place]:
                del self._entries[place]

    def find(self, namespace: str, labels: Labels, namespace_labels: Labels) -> list[E]:
        """The entries whose audiences a pod belongs to."""
        found: dict[E, None] = {}
        for where in (namespace, None):
            for label in (None, *labels.items()):
                for entry, audiences in self._entries.get((where, label), {}).items():
                    if entry not in found and belongs_to_all(audiences, namespace, labels, namespace_labels):
                        found[entry] = None
        return list(found)

    def clear(self) -> None:
        self._entries.clear()


def belongs_to_all(audiences: SelectorGroups, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
    """Whether a pod belongs to each of the audiences; nobody belongs to none."""
    return bool(audiences) and all(one.includes(namespace, labels, namespace_labels) for one in audiences)


def _places(audience: SelectorGroup) -> Iterator[_Place]:
    if audience.selector.nothing:
        return
    label = required_label(audience)
    for namespace in sorted(audience.namespaces):
        yield namespace, label
    if not audience.namespace_selector.nothing:
        yield None, label


def required_label(audience: SelectorGroup) -> tuple[str, str] | None:
    """A label that every pod of the audience has; None if there is no such label."""
    required = ((one.key, one.values[0]) for one in audience.selector.requirements if _names_one_value(one))
    return next(required, None)


def _names_one_value(requirement: Requirement) -> bool:
    return requirement.operator == "In" and len(requirement.values) == 1
