"""Which pods equal a template, and how differences are described."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    Quantities,
    ResourceRequirements,
    SelectorRequirement,
    SelectorSpec,
    Toleration,
    Volume,
)
from restow.model.reservations.template_comparison import FIELDS, canonical_form, describe_differences, differing_fields


def pod_with(**fields: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", labels={"app": "web"}), spec=PodSpec(**fields))


def container(
    name: str = "main",
    image: str = "a",
    requests: Quantities | None = None,
    limits: Quantities | None = None,
    **more: Any,
) -> Container:
    return Container(name=name, image=image, resources=ResourceRequirements(requests=requests, limits=limits), **more)


def expression(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key=key, operator="In", values=list(values))


def required(*terms: NodeSelectorTerm) -> Affinity:
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=list(terms))))


def near(**fields: Any) -> Affinity:
    term = PodAffinityTerm(**{"topology_key": "zone", **fields})
    return Affinity(pod_affinity=PodAffinity(required=[term]))


ANY_NODE_LOSS = [
    Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect="NoExecute", toleration_seconds=300)
    for key in ("unreachable", "not-ready")
]
A, B = (
    NodeSelectorTerm(match_expressions=[expression("a", "1")]),
    NodeSelectorTerm(match_expressions=[expression("b", "1")]),
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({}, {"scheduler_name": "default-scheduler"}, id="the default scheduler"),
        pytest.param({"node_selector": {}}, {}, id="an empty selector is none"),
        pytest.param({"node_selector": {"a": "1", "b": "2"}}, {"node_selector": {"b": "2", "a": "1"}}, id="of labels"),
        pytest.param({"tolerations": ANY_NODE_LOSS}, {}, id="the tolerations that are added to every pod"),
        pytest.param(
            {"tolerations": [Toleration(key="a", value="1"), Toleration(key="b", operator="Exists")]},
            {"tolerations": [Toleration(key="b", operator="Exists"), Toleration(key="a", operator="Equal", value="1")]},
            id="tolerations in another order, operators left out",
        ),
        pytest.param(
            {"containers": [container("a"), container("b")]},
            {"containers": [container("b"), container("a")]},
            id="containers in another order",
        ),
        pytest.param(
            {"containers": [container(requests={"cpu": "1", "memory": "1Gi"})]},
            {"containers": [container(requests={"memory": "1024Mi", "cpu": "1000m"})]},
            id="quantities written otherwise",
        ),
        pytest.param(
            {"containers": [container(limits={"cpu": "1"})]},
            {"containers": [container(requests={"cpu": "1"}, limits={"cpu": "1"})]},
            id="requests that follow from limits",
        ),
        pytest.param({"affinity": required(A, B)}, {"affinity": required(B, A)}, id="alternatives in another order"),
        pytest.param(
            {
                "affinity": required(
                    NodeSelectorTerm(match_expressions=[expression("a", "1", "2"), expression("b", "3")])
                )
            },
            {
                "affinity": required(
                    NodeSelectorTerm(match_expressions=[expression("b", "3"), expression("a", "2", "1")])
                )
            },
            id="expressions and values in another order",
        ),
        pytest.param(
            {"affinity": near(label_selector=SelectorSpec(match_labels={"x": "y"}), match_label_keys=["app"])},
            {
                "affinity": near(
                    label_selector=SelectorSpec(match_labels={"x": "y"}, match_expressions=[expression("app", "web")]),
                    match_label_keys=["app"],
                )
            },
            id="label keys that the API server has written into the selector",
        ),
        pytest.param({"affinity": Affinity(node_affinity=NodeAffinity())}, {}, id="an affinity that asks for nothing"),
        pytest.param(
            {"volumes": [Volume(name="token")], "node_name": "n1", "priority": 5}, {}, id="what is not compared"
        ),
        pytest.param({"init_containers": []}, {}, id="no init containers"),
    ],
)
def test_pods_that_mean_the_same_have_no_differing_fields(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert differing_fields(pod_with(**one), pod_with(**other)) == ()


@pytest.mark.parametrize(
    ("one", "other", "field"),
    [
        pytest.param({"scheduler_name": "restow"}, {"scheduler_name": "x"}, "schedulerName", id="another scheduler"),
        pytest.param({"node_selector": {"a": "1"}}, {"node_selector": {"a": "2"}}, "nodeSelector", id="another label"),
        pytest.param({"affinity": required(A)}, {"affinity": required(A, B)}, "affinity", id="fewer alternatives"),
        pytest.param(
            {"affinity": near(label_selector=SelectorSpec())},
            {"affinity": near()},
            "affinity",
            id="all pods are not none",
        ),
        pytest.param(
            {
                "affinity": Affinity(
                    node_affinity=NodeAffinity(preferred=[PreferredSchedulingTerm(weight=1, preference=A)])
                )
            },
            {
                "affinity": Affinity(
                    node_affinity=NodeAffinity(preferred=[PreferredSchedulingTerm(weight=2, preference=A)])
                )
            },
            "affinity",
            id="another weight",
        ),
        pytest.param(
            {"tolerations": [Toleration(key="a", operator="Exists")]}, {}, "tolerations", id="one more toleration"
        ),
        pytest.param(
            {"tolerations": [replace(one, toleration_seconds=10) for one in ANY_NODE_LOSS]},
            {},
            "tolerations",
            id="less patience with lost nodes",
        ),
        pytest.param({"priority_class_name": "gold"}, {}, "priorityClassName", id="another class"),
        pytest.param(
            {"containers": [container(image="a")]},
            {"containers": [container(image="b")]},
            "containers",
            id="another image",
        ),
        pytest.param(
            {"containers": [container("a")]}, {"containers": [container("b")]}, "containers", id="another name"
        ),
        pytest.param(
            {"containers": [container(requests={"cpu": "1"})]},
            {"containers": [container(requests={"cpu": "1"}, limits={"cpu": "1"})]},
            "containers",
            id="a limit",
        ),
        pytest.param(
            {"containers": [container()]}, {"containers": [container(), container("b")]}, "containers", id="one more"
        ),
        pytest.param({"init_containers": [container()]}, {}, "initContainers", id="an init container"),
        pytest.param(
            {"init_containers": [container("a"), container("b")]},
            {"init_containers": [container("b"), container("a")]},
            "initContainers",
            id="init containers in another order",
        ),
        pytest.param(
            {"containers": [container(requests={"cpu": "2c"})]},
            {"containers": [container(requests={"cpu": "3c"})]},
            "containers",
            id="what is no quantity",
        ),
    ],
)
def test_differing_fields_are_named(one: dict[str, Any], other: dict[str, Any], field: str) -> None:
    assert (
        differing_fields(pod_with(**one), pod_with(**other))
        == (field,)
        == differing_fields(pod_with(**other), pod_with(**one))
    )


def test_seat_without_scheduler_name_matches_pods_of_any_scheduler() -> None:
    assert differing_fields(pod_with(scheduler_name="restow"), pod_with()) == ()
    assert differing_fields(pod_with(), pod_with(scheduler_name="restow")) == ("schedulerName",)


def test_default_priority_class_counts_for_pods_that_name_none() -> None:
    assert differing_fields(pod_with(priority_class_name="usual"), pod_with(), "usual") == ()
    assert differing_fields(pod_with(priority_class_name="usual"), pod_with(priority_class_name="gold"), "usual") == (
        "priorityClassName",
    )


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        pytest.param([container("a", "x")], [container("a", "y")], "containers (a: image)", id="another image"),
        pytest.param(
            [container("a", "x", {"cpu": "1"}), container("b", "y")],
            [container("a", "z", {"cpu": "2"}), container("c", "y")],
            "containers (a: image, requests; the pod has no c; the template has no b)",
            id="several",
        ),
    ],
)
def test_differing_containers_are_described_one_by_one(one: list[Any], other: list[Any], told: str) -> None:
    pod, seat = pod_with(containers=one), pod_with(containers=other)
    assert describe_differences(pod, seat, differing_fields(pod, seat)) == told


def test_order_of_init_containers_is_described() -> None:
    first, second = container("a", "x"), container("b", "y")
    pod, seat = pod_with(init_containers=[first, second]), pod_with(init_containers=[second, first])
    assert describe_differences(pod, seat, differing_fields(pod, seat)) == "initContainers (their order)"


TOLERATION = st.builds(Toleration, key=st.sampled_from(["a", "b", None]), value=st.sampled_from(["1", None]))
CONTAINERS = st.lists(
    st.builds(container, st.sampled_from("abc"), st.sampled_from("xy"), st.sampled_from([None, {"cpu": "1"}])),
    unique_by=lambda one: one.name,
)
SPECS = st.builds(
    pod_with,
    tolerations=st.lists(TOLERATION, max_size=3),
    containers=CONTAINERS,
    affinity=st.sampled_from([None, required(A, B)]),
)


@given(SPECS, st.randoms(use_true_random=False))
def test_order_of_unordered_lists_does_not_matter(one: Pod, random: Random) -> None:
    spec = one.spec
    tolerations, containers = list(spec.tolerations or ()), list(spec.containers or ())
    random.shuffle(tolerations)
    random.shuffle(containers)
    other = replace(one, spec=replace(spec, tolerations=tolerations, containers=containers))
    assert differing_fields(one, other) == ()


@given(SPECS, SPECS)
def test_canonical_forms_are_equal_exactly_where_no_field_differs(one: Pod, other: Pod) -> None:
    found = differing_fields(one, other)
    assert set(found) <= set(FIELDS)
    assert (canonical_form(one) == canonical_form(other)) == (not found)
