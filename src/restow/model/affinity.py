"""Node selectors and node affinity: which nodes a pod, or a volume, may be on, and which it prefers.

Goes in: what a pod spec or a volume says. Comes out: a compiled matcher asked with a node's name and labels. Terms are
ORed, the expressions of a term ANDed; an empty term matches nothing, an absent node selector matches everything, and a
term that cannot be read matches nothing and says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import msgspec
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
    SelectorRequirement,
)
from restow.model.selectors import Operator, Requirement, SelectorError, read_requirement

Labels = Mapping[str, str]
_OPERATORS: tuple[Operator, ...] = get_args(Operator)
NAME_FIELD = "metadata.name"


class FieldRequirement(msgspec.Struct, frozen=True, gc=False):
    """A condition on a field of the node; only its name can be asked for, every other field reads ""."""

    path: str
    negated: bool
    value: str

    def matches(self, name: str) -> bool:
        return ((name if self.path == NAME_FIELD else "") == self.value) is not self.negated


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """One alternative: all of it must hold. With a `problem` it could not be read, and never does."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    problem: str = ""

    def matches(self, name: str, labels: Labels) -> bool:
        return (
            not self.problem
            and all(requirement.matches(labels) for requirement in self.labels)
            and all(field.matches(name) for field in self.fields)
        )

    def pinned(self) -> frozenset[str] | None:
        """The only node names that can match, if the term names any; empty when it names two different ones."""
        named = {field.value for field in self.fields if field.path == NAME_FIELD and not field.negated}
        if not named:
            return None
        return frozenset(named) if len(named) == 1 else frozenset()


class NodeConstraint(msgspec.Struct, frozen=True, gc=False):
    """Labels that must be equal, and terms of which one must match (None: no terms were asked for)."""

    equal: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] | None = None

    def matches(self, name: str, labels: Labels | None) -> bool:
        present = labels or {}
        if any(present.get(key) != value for key, value in self.equal):
            return False
        return self.terms is None or any(term.matches(name, present) for term in self.terms)

    def pinned(self) -> frozenset[str] | None:
        """The only node names worth asking about, or None when any name may do."""
        if self.terms is None:
            return None
        names: set[str] = set()
        for term in self.terms:
            pinned = term.pinned()
            if pinned is None:
                return None
            names |= pinned
        return frozenset(names)

    def excluded(self) -> frozenset[str]:
        """The node names that no term allows, whatever labels the node has."""
        named = [
            {field.value for field in term.fields if field.path == NAME_FIELD and field.negated}
            for term in self.terms or ()
        ]
        return frozenset.intersection(*map(frozenset, named)) if named else frozenset()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(term.problem for term in self.terms or () if term.problem)


class NodePreference(msgspec.Struct, frozen=True, gc=False):
    """Weighted terms; a node scores the sum of the weights of those that match."""

    terms: tuple[tuple[int, NodeTerm], ...] = ()

    def score(self, name: str, labels: Labels | None) -> int:
        present = labels or {}
        return sum(weight for weight, term in self.terms if term.matches(name, present))


def node_constraint(spec: PodSpec) -> NodeConstraint:
    """What spec.nodeSelector and the required node affinity together demand."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    equal = tuple(sorted((spec.node_selector or {}).items()))
    return NodeConstraint(equal, _terms(affinity.required) if affinity else None)


def bound_to(spec: PodSpec, node: str | None, *, but_not: str | None = None) -> PodSpec:
    """The spec for one node alone, or for any but one, whatever else it requires. A term without conditions matches
    nothing, and must not come to match by getting one."""
    asked = (("NotIn", but_not), ("In", node))
    wanted = [SelectorRequirement(key=NAME_FIELD, operator=how, values=[name]) for how, name in asked if name]
    if not wanted:
        return spec
    affinity = spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    if node_affinity.required is None:
        terms = [NodeSelectorTerm(match_fields=wanted)]
    else:
        terms = [
            replace(term, match_fields=[*(term.match_fields or ()), *wanted])
            for term in node_affinity.required.node_selector_terms or ()
            if term.match_fields or term.match_expressions
        ] or [NodeSelectorTerm()]
    required = NodeSelector(node_selector_terms=terms)
    return replace(spec, affinity=replace(affinity, node_affinity=replace(node_affinity, required=required)))


def names_of(spec: PodSpec) -> frozenset[str]:
    """The nodes that a spec names as those it is for."""
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    terms = (node_affinity.required.node_selector_terms if node_affinity and node_affinity.required else None) or ()
    fields = (field for term in terms for field in term.match_fields or ())
    named = (field for field in fields if field.key == NAME_FIELD and field.operator == "In")
    return frozenset(name for field in named for name in field.values or ())


def volume_constraint(selector: NodeSelector | None) -> NodeConstraint:
    """What a volume's node affinity demands."""
    return NodeConstraint((), _terms(selector))


def node_preference(spec: PodSpec) -> NodePreference:
    """What the preferred node affinity of a pod is worth. Raises SelectorError when a term cannot be read."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    preferred: Sequence[PreferredSchedulingTerm] = (affinity.preferred if affinity else None) or ()
    terms = [(term.weight, _term(term.preference)) for term in preferred if term.weight and not _empty(term.preference)]
    problems = [term.problem for _, term in terms if term.problem]
    if problems:
        raise SelectorError("; ".join(problems))
    return NodePreference(tuple(terms))


def _terms(selector: NodeSelector | None) -> tuple[NodeTerm, ...] | None:
    if selector is None:
        return None
    return tuple(_term(term) for term in selector.node_selector_terms or () if not _empty(term))


def _empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _term(term: NodeSelectorTerm) -> NodeTerm:
    labels: list[Requirement] = []
    fields: list[FieldRequirement] = []
    problems: list[str] = []
    for expression in term.match_expressions or ():
        try:
            labels.append(read_requirement(expression, _OPERATORS))
        except SelectorError as error:
            problems.append(str(error))
    for expression in term.match_fields or ():
        try:
            fields.append(_field_requirement(expression))
        except SelectorError as error:
            problems.append(str(error))
    return NodeTerm(tuple(labels), tuple(fields), "; ".join(problems))


def _field_requirement(expression: SelectorRequirement) -> FieldRequirement:
    if expression.operator not in ("In", "NotIn"):
        raise SelectorError(f"operator {expression.operator!r} of field {expression.key!r}: expected In or NotIn")
    values = expression.values or []
    if len(values) != 1:
        raise SelectorError(f"values of field {expression.key!r}: expected exactly one")
    return FieldRequirement(expression.key, expression.operator == "NotIn", values[0])
