"""Equivalence classes: which differences between two pods matter to scheduling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.cluster.pod_shapes import are_surely_alike
from restow.model.objects import (
    Affinity,
    ClaimVolume,
    Container,
    ContainerPort,
    ContainerStatus,
    EphemeralVolume,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
    SelectorRequirement,
    SelectorSpec,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node, pod, reservation
from tests.narrowing import present


def spread(*keys: str, selector: SelectorSpec | None = None) -> dict[str, Any]:
    chosen = selector or SelectorSpec(match_labels=dict.fromkeys(keys, "x"))
    constraint = TopologySpreadConstraint(
        topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=chosen
    )
    return {"topology_spread_constraints": [constraint]}


def repels(**where: Any) -> dict[str, Any]:
    term = PodAffinityTerm(topology_key="zone", label_selector=SelectorSpec(match_labels={"app": "x"}), **where)
    return {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=[term]))}


def ports(host_network: bool | None = None, **fields: Any) -> PodSpec:
    container = Container(name="main", ports=[ContainerPort(**fields)])
    return PodSpec(containers=[container], host_network=host_network)


ON_SSD = Affinity(
    node_affinity=NodeAffinity(
        required=NodeSelector(
            node_selector_terms=[
                NodeSelectorTerm(match_expressions=[SelectorRequirement(key="disk", operator="In", values=["ssd"])])
            ]
        )
    )
)
RUNNING = PodStatus(
    phase="Running",
    container_statuses=[ContainerStatus(name="main", resources=ResourceRequirements(requests={"cpu": "1"}))],
)
GROWN = PodStatus(
    phase="Running",
    container_statuses=[ContainerStatus(name="main", resources=ResourceRequirements(requests={"cpu": "2"}))],
)


def claim(name: str) -> dict[str, Any]:
    return {"volumes": [Volume(name="data", persistent_volume_claim=ClaimVolume(claim_name=name))]}


def reporting(status: PodStatus) -> Pod:
    return Pod(spec=pod("any").spec, status=status)


TOLERANT = [Toleration(key="x", value="1"), Toleration(key="y", operator="Exists")]
SPELLED_OUT = [Toleration(key="y", operator="Exists"), Toleration(key="x", operator="Equal", value="1", effect="")]
OTHERWISE = [Toleration(key="x", value="2")]
TOKEN: dict[str, Any] = {"volumes": [Volume(name="kube-api-access-x7k")]}
OTHER_TOKEN: dict[str, Any] = {"volumes": [Volume(name="kube-api-access-9fd")]}
SELECTOR, REVERSED = {"a": "1", "b": "2"}, {"b": "2", "a": "1"}
CLAIMING: dict[str, Any] = {"resource_claims": [PodResourceClaim(name="gpu", resource_claim_template_name="gpus")]}
EPHEMERAL: dict[str, Any] = {"volumes": [Volume(name="data", ephemeral=EphemeralVolume())]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(pod("a"), pod("b", uid="other"), id="names and UIDs"),
        pytest.param(pod("a", {"cpu": "1"}), pod("b", {"cpu": "1000m"}), id="how an amount is written"),
        pytest.param(
            pod("a", labels={"index": "0"}), pod("b", labels={"index": "1"}), id="labels that no selector reads"
        ),
        pytest.param(pod("a"), pod("b", namespace="other"), id="namespaces that no selector reads"),
        pytest.param(pod("a", hostname="a"), pod("b", hostname="b"), id="host names"),
        pytest.param(pod("a", on="n1"), pod("b"), id="where it runs"),
        pytest.param(pod("a", tolerations=TOLERANT), pod("b", tolerations=SPELLED_OUT), id="spelling of tolerations"),
        pytest.param(
            pod("a", node_selector={"a": "1", "b": "2"}),
            pod("b", node_selector={"b": "2", "a": "1"}),
            id="order of keys",
        ),
        pytest.param(pod("a", **TOKEN), pod("b", **OTHER_TOKEN), id="token volumes"),
        pytest.param(Pod(spec=ports(host_port=80)), Pod(spec=ports(host_port=80, protocol="TCP")), id="port defaults"),
        pytest.param(Pod(spec=ports(container_port=1)), Pod(spec=ports(container_port=2)), id="container ports"),
        pytest.param(pod("a"), reporting(RUNNING), id="a report of having what was asked for"),
    ],
)
def test_pods_that_differ_in_unread_fields_share_a_class(one: Pod, other: Pod) -> None:
    snapshot = Snapshot()
    first = snapshot.class_of(one)
    assert snapshot.class_of(other) is first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(pod("a", {"cpu": "1"}), pod("b", {"cpu": "2"}), id="requests"),
        pytest.param(pod("a", tolerations=TOLERANT), pod("b", tolerations=OTHERWISE), id="tolerations"),
        pytest.param(pod("a", affinity=ON_SSD), pod("b"), id="node affinity"),
        pytest.param(pod("a", priority=1), pod("b"), id="priority"),
        pytest.param(pod("a", scheduler_name="x"), pod("b", scheduler_name="y"), id="scheduler name"),
        pytest.param(pod("a", scheduling_gates=[SchedulingGate(name="g")]), pod("b"), id="gates"),
        pytest.param(pod("a", **claim("d-0")), pod("b", **claim("d-1")), id="claims"),
        pytest.param(pod("a", **EPHEMERAL), pod("b", **EPHEMERAL), id="claims named after the pod"),
        pytest.param(pod("a", **claim("d")), pod("a", **claim("d"), namespace="other"), id="equally named claims"),
        pytest.param(Pod(spec=ports(host_port=80)), Pod(spec=ports(host_port=81)), id="host ports"),
        pytest.param(
            Pod(spec=ports(container_port=1, host_network=True)),
            Pod(spec=ports(container_port=2, host_network=True)),
            id="any port on the host's network",
        ),
        pytest.param(pod("a"), reporting(GROWN), id="a report of having more than is asked for"),
    ],
)
def test_pods_that_differ_in_read_fields_have_different_classes(one: Pod, other: Pod) -> None:
    snapshot = Snapshot()
    first = snapshot.class_of(one)
    assert snapshot.class_of(other) is not first


@pytest.mark.parametrize(
    ("one", "other", "seen"),
    [
        pytest.param(pod("a", {"cpu": "1"}), pod("b", {"cpu": "1"}), True, id="as one workload writes them"),
        pytest.param(pod("a", **TOKEN), pod("b", **OTHER_TOKEN), True, id="token volumes"),
        pytest.param(pod("a", {"cpu": "1"}), pod("b", {"cpu": "1000m"}), False, id="written differently"),
        pytest.param(pod("a", **claim("d")), pod("b", **claim("d")), False, id="volumes that constrain"),
        pytest.param(pod("a", **TOKEN), pod("b", {"cpu": "7"}, **TOKEN), False, id="requests beside a token"),
        pytest.param(pod("a", **CLAIMING), pod("b", **CLAIMING), False, id="claims named after the pod"),
        pytest.param(pod("any"), reporting(RUNNING), False, id="a report of resources"),
    ],
)
def test_quick_comparison_of_pods_is_never_wrong(one: Pod, other: Pod, seen: bool) -> None:
    snapshot = Snapshot()
    assert are_surely_alike(one, other) == are_surely_alike(other, one) == seen
    assert not seen or snapshot.shapes.of(one) is snapshot.shapes.of(other)


def test_label_splits_classes_once_a_selector_reads_it() -> None:
    snapshot = Snapshot()
    one, other = pod("a", labels={"app": "x", "i": "0"}), pod("b", labels={"app": "y", "i": "1"})
    before, version = snapshot.class_of(one), snapshot.classes.version
    assert snapshot.class_of(other) is before
    snapshot.apply_pod(pod("c", on="n1", **spread("app")))
    assert snapshot.classes.version != version
    assert snapshot.class_of(one) is not snapshot.class_of(other)
    assert snapshot.class_of(one) is snapshot.class_of(pod("d", labels={"app": "x", "i": "2"}))
    assert snapshot.class_of(one).shape is before.shape


@pytest.mark.parametrize(
    ("reader", "here", "elsewhere"),
    [
        pytest.param(spread("app"), True, False, id="spread reads its own namespace"),
        pytest.param(repels(), True, False, id="affinity, too"),
        pytest.param(repels(namespaces=["other"]), False, True, id="a named namespace"),
        pytest.param(repels(namespace_selector=SelectorSpec()), True, True, id="a namespace selector"),
    ],
)
def test_selector_splits_classes_only_in_its_namespaces(reader: dict[str, Any], here: bool, elsewhere: bool) -> None:
    snapshot = Snapshot()
    snapshot.apply_pod(pod("reader", on="n1", **reader))

    def split(namespace: str) -> bool:
        one, other = (pod("p", labels={"app": value}, namespace=namespace) for value in "xy")
        return snapshot.class_of(one) is not snapshot.class_of(other)

    assert (split("default"), split("other")) == (here, elsewhere)


def test_selector_of_the_pod_to_place_splits_classes() -> None:
    snapshot = Snapshot()
    keys = SelectorSpec(match_expressions=[SelectorRequirement(key="app", operator="Exists")])
    one, other = (pod("p", labels={"app": value}, **spread(selector=keys)) for value in "xy")
    assert snapshot.class_of(one) is not snapshot.class_of(other)


def test_selector_of_a_reserved_pod_splits_classes() -> None:
    snapshot = Snapshot()
    snapshot.apply_node(node("n1"))
    snapshot.apply_reservation(reservation("r", {0: "n1"}, **spread("app")))
    one, other = (pod("p", labels={"app": value}) for value in "xy")
    assert snapshot.class_of(one) is not snapshot.class_of(other)


def test_label_that_no_selector_reads_any_more_stops_splitting_classes() -> None:
    snapshot = Snapshot()
    snapshot.apply_pod(pod("stays", on="n1", **spread("app")))
    for number in range(200):  # each reads a label of its own, and goes
        snapshot.class_of(pod(f"p{number}", **spread(f"run-{number}")))
    labels = {f"run-{number}": "x" for number in range(100)}
    one, other, another = (pod("p", labels={**labels, "app": app}) for app in "xyx")
    present(another.metadata.labels)["run-7"] = "y"
    assert snapshot.class_of(one) is not snapshot.class_of(other)
    assert snapshot.class_of(one) is snapshot.class_of(another)


PODS = st.builds(
    lambda labels, namespace, cpu, reads: pod(
        "p", {"cpu": cpu}, labels=labels, namespace=namespace, **(spread(*reads) if reads else {})
    ),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy")),
    st.sampled_from(["one", "two"]),
    st.sampled_from(["1", "1000m", "2"]),
    st.sets(st.sampled_from("ab"), max_size=2).map(sorted),
)


@given(st.lists(PODS, max_size=8))
def test_pods_share_a_class_exactly_when_everything_read_is_equal(pods: list[Pod]) -> None:
    snapshot = Snapshot()
    for one in pods:
        snapshot.class_of(one)
    read: dict[str, set[str]] = {}
    for one in pods:
        for constraint in one.spec.topology_spread_constraints or ():
            read.setdefault(present(one.metadata.namespace), set()).update(
                present(present(constraint.label_selector).match_labels)
            )

    def naive(one: Pod) -> tuple[Any, ...]:
        keys = read.get(present(one.metadata.namespace))
        labels = {key: value for key, value in present(one.metadata.labels).items() if key in (keys or ())}
        shape = snapshot.shapes.of(one).fields.requests["cpu"], str(one.spec.topology_spread_constraints)
        return shape, labels, one.metadata.namespace if keys is not None else None

    found = [(snapshot.class_of(one), naive(one)) for one in pods]
    for given_class, key in found:
        assert all((other_class is given_class) == (other_key == key) for other_class, other_key in found)


def test_one_off_shapes_are_dropped() -> None:
    snapshot = Snapshot()
    for index in range(50):
        claim = Volume(name="d", persistent_volume_claim=ClaimVolume(claim_name=f"d-{index}"))
        snapshot.apply_pod(pod(f"p{index}", on="n1", volumes=[claim]))
        snapshot.remove_pod(pod(f"p{index}", on="n1", volumes=[claim]))
    assert len(snapshot.shapes._canonical) == 0


def test_pods_with_a_claim_each_share_a_base_class() -> None:
    snapshot = Snapshot()
    claims = [ClaimVolume(claim_name=name) for name in ("data-0", "data-1")]
    one, other = (snapshot.class_of(pod("p", volumes=[Volume(persistent_volume_claim=claim)])) for claim in claims)
    assert one is not other
    assert one.base is other.base is not one
    assert one.base.base is one.base
    assert one.base.shape.fields.volumes == ()
