"""The filters a node decides by itself or by who is on it: who is refused, in kube-scheduler's words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    Affinity,
    Container,
    ContainerPort,
    ContainerRestartRule,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodResourceClaim,
    PodSpec,
    SchedulingGate,
    SchedulingGroup,
    SelectorRequirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from restow.scheduling.framework import SUCCESS, ArgumentError, Code, FilterPlugin, Plugin
from restow.scheduling.plugins import node_affinity
from restow.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from restow.scheduling.plugins.bin_packing import BinPacking
from restow.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from restow.scheduling.plugins.node_name import NodeName
from restow.scheduling.plugins.node_ports import NodePorts
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from restow.scheduling.plugins.node_unschedulable import NodeUnschedulable
from restow.scheduling.plugins.scheduling_gates import SchedulingGates
from restow.scheduling.plugins.taint_toleration import TaintToleration
from restow.scheduling.plugins.unsupported import Unsupported
from tests.model.cluster.builders import node, pod
from tests.scheduling.plugins.plugin_answers import cycle, reasons

NOT_NAMED = "node(s) didn't match the requested node name!"
CORDONED = "node(s) were unschedulable!"
TAINTED = "node(s) had untolerated taint(s)!"
UNWANTED = "node(s) didn't match Pod's node affinity/selector!"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity!"
OTHERS_NAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]!"
NO_PORT = "node(s) didn't have free ports for the requested pod ports"


def test_node_name_refuses_all_other_nodes() -> None:
    asked = cycle(pod("new", on="b"), [node("a"), node("b")])
    assert reasons(NodeName(), asked) == {"a": [NOT_NAMED], "b": []}


def test_node_name_of_no_node_refuses_all_nodes() -> None:
    assert reasons(NodeName(), cycle(pod("new", on="z"), [node("a")])) == {"a": [NOT_NAMED]}


def test_cordoned_nodes_are_refused() -> None:
    asked = cycle(pod("new"), [node("a", unschedulable=True), node("b")])
    assert reasons(NodeUnschedulable(), asked) == {"a": [CORDONED], "b": []}


def test_pod_that_tolerates_a_cordon_passes() -> None:
    tolerant = pod("new", tolerations=[Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")])
    assert reasons(NodeUnschedulable(), cycle(tolerant, [node("a", unschedulable=True)])) == {"a": []}


@pytest.mark.parametrize(
    ("effect", "toleration", "refused"),
    [
        pytest.param("NoSchedule", None, True, id="a hard taint refuses"),
        pytest.param("NoExecute", None, True, id="so does one that evicts"),
        pytest.param("PreferNoSchedule", None, False, id="a soft one does not"),
        pytest.param("NoSchedule", Toleration(key="k", value="v"), False, id="equal value tolerates"),
        pytest.param("NoSchedule", Toleration(key="k", value="w"), True, id="another value does not"),
        pytest.param("NoSchedule", Toleration(operator="Exists"), False, id="everything is tolerated"),
        pytest.param(
            "NoExecute", Toleration(key="k", value="v", effect="NoSchedule"), True, id="only another effect is"
        ),
        pytest.param("NoSchedule", Toleration(key="k", operator="Gt", value="1"), True, id="comparisons are off"),
    ],
)
def test_untolerated_taints_refuse_nodes(effect: str, toleration: Toleration | None, refused: bool) -> None:
    nodes = [node("a", taints=[Taint(key="k", value="v", effect=effect)]), node("b")]
    asked = cycle(pod("new", tolerations=[toleration] if toleration else None), nodes)
    assert reasons(TaintToleration(), asked) == {"a": [TAINTED] if refused else [], "b": []}


def test_skipped_taint_filter_sees_a_new_taint() -> None:
    plugin, asked = TaintToleration(), cycle(pod("new"), [node("a"), node("b")])
    assert plugin.pre_filter(asked).code is Code.SKIP
    asked.snapshot.apply_node(node("b", taints=[Taint(key="k", effect="NoSchedule")]))
    assert plugin.pre_filter(asked).code is Code.SUCCESS
    assert reasons(plugin, asked) == {"a": [], "b": [TAINTED]}


def in_zone(*zones: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=[SelectorRequirement(key="zone", operator="In", values=list(zones))])


def named(*names: str) -> NodeSelectorTerm:
    demands = [SelectorRequirement(key="metadata.name", operator="In", values=[name]) for name in names]
    return NodeSelectorTerm(match_fields=demands)


def demanding(*terms: NodeSelectorTerm) -> dict[str, Any]:
    required = NodeSelector(node_selector_terms=list(terms))
    return {"affinity": Affinity(node_affinity=NodeAffinity(required=required))}


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        pytest.param({"node_selector": {"zone": "a"}}, {"b": UNWANTED}, id="selector"),
        pytest.param(demanding(in_zone("b")), {"a": UNWANTED}, id="one term"),
        pytest.param(demanding(in_zone("b"), in_zone("a")), {}, id="terms are alternatives"),
        pytest.param({**demanding(in_zone("a", "b")), "node_selector": {"zone": "a"}}, {"b": UNWANTED}, id="both"),
        pytest.param(demanding(), {"a": UNWANTED, "b": UNWANTED}, id="no term matches nothing"),
        pytest.param(demanding(NodeSelectorTerm()), {"a": UNWANTED, "b": UNWANTED}, id="an empty term neither"),
        pytest.param(demanding(named("b")), {"a": OTHERS_NAMED}, id="a pinned node leaves the others out"),
        pytest.param(demanding(named("b"), in_zone("a")), {}, id="not if there is an alternative"),
    ],
)
def test_node_affinity_refuses_nodes_by_term(fields: dict[str, Any], refused: dict[str, str]) -> None:
    nodes = [node("a", labels={"zone": "a"}), node("b", labels={"zone": "b"})]
    found = reasons(node_affinity.NodeAffinity(), cycle(pod("new", **fields), nodes))
    assert {name: why for name, why in found.items() if why} == {name: [why] for name, why in refused.items()}


def test_pod_pinned_to_two_nodes_at_once_is_unresolvable() -> None:
    verdict = node_affinity.NodeAffinity().pre_filter(cycle(pod("new", **demanding(named("a", "b"))), [node("a")]))
    assert (verdict.code, verdict.reasons) == (Code.UNRESOLVABLE, ("pod affinity terms conflict",))


def test_added_affinity_holds_for_every_pod() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    added = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    asked = cycle(pod("new"), [node("a", labels={"zone": "a"}), node("b")])
    assert reasons(node_affinity.NodeAffinity(added), asked) == {"a": [], "b": [ENFORCED]}


def listening(name: str, *ports: ContainerPort, on: str | None = None, **fields: Any) -> Pod:
    made = pod(name, on=on, **fields)
    container = Container(name="main", ports=list(ports))
    return Pod(metadata=made.metadata, spec=type(made.spec)(containers=[container], node_name=on, **fields))


PORT = ContainerPort(container_port=80, host_port=80)


@pytest.mark.parametrize(
    ("wanted", "held", "refused"),
    [
        pytest.param(PORT, PORT, True, id="the same port"),
        pytest.param(ContainerPort(host_port=81), PORT, False, id="another port"),
        pytest.param(ContainerPort(host_port=80, protocol="UDP"), PORT, False, id="another protocol"),
        pytest.param(ContainerPort(host_port=80, protocol="TCP"), PORT, True, id="TCP is the default"),
        pytest.param(ContainerPort(host_port=80, host_ip="10.0.0.1"), PORT, True, id="held on every address"),
        pytest.param(PORT, ContainerPort(host_port=80, host_ip="10.0.0.1"), True, id="wanted on every address"),
        pytest.param(
            ContainerPort(host_port=80, host_ip="10.0.0.1"),
            ContainerPort(host_port=80, host_ip="10.0.0.2"),
            False,
            id="two addresses",
        ),
        pytest.param(ContainerPort(container_port=80), PORT, False, id="a container port is no host port"),
    ],
)
def test_used_host_ports_refuse_nodes(wanted: ContainerPort, held: ContainerPort, refused: bool) -> None:
    asked = cycle(listening("new", wanted), [node("a"), node("b")], [listening("old", held, on="a")])
    assert reasons(NodePorts(), asked) == {"a": [NO_PORT] if refused else [], "b": []}


def test_every_port_of_a_pod_on_the_host_network_is_a_host_port() -> None:
    held = listening("old", ContainerPort(container_port=80), on="a", host_network=True)
    assert reasons(NodePorts(), cycle(listening("new", PORT), [node("a")], [held])) == {"a": [NO_PORT]}


def test_host_port_is_free_again_when_its_pod_is_gone_or_forgotten() -> None:
    asked = cycle(listening("new", PORT), [node("a")])
    snapshot, holder = asked.snapshot, listening("old", PORT)
    mark = snapshot.mark()
    snapshot.assume(holder, "a", at=0.0)
    assert reasons(NodePorts(), asked) == {"a": [NO_PORT]}
    snapshot.undo_to(mark)
    assert reasons(NodePorts(), asked) == {"a": []}


SMALL = {"cpu": "2", "memory": "4Gi", "pods": "2", "example.com/gpu": "1"}


@pytest.mark.parametrize(
    ("requests", "taken", "refused"),
    [
        pytest.param({"cpu": "1"}, [{"cpu": "1"}], [], id="exactly full"),
        pytest.param({"cpu": "1001m"}, [{"cpu": "1"}], ["Insufficient cpu"], id="one milli too much"),
        pytest.param({"cpu": "2001m"}, [], ["Insufficient cpu!"], id="too small even when empty"),
        pytest.param(
            {"cpu": "2", "memory": "5Gi"}, [{"cpu": "1"}], ["Insufficient cpu", "Insufficient memory!"], id="two"
        ),
        pytest.param({}, [{}, {}], ["Too many pods"], id="too many pods"),
        pytest.param({}, [{"cpu": "3"}], [], id="a pod without requests fits on an over-committed node"),
        pytest.param({"cpu": "0"}, [{"cpu": "3"}], [], id="zero is nothing"),
        pytest.param({"example.com/gpu": "1"}, [{"example.com/gpu": "1"}], ["Insufficient example.com/gpu"], id="gpu"),
        pytest.param({"example.com/fpga": "1"}, [], ["Insufficient example.com/fpga!"], id="a kind no node has"),
        pytest.param({"hugepages-2Mi": "2Mi"}, [], ["Insufficient hugepages-2Mi!"], id="huge pages"),
        pytest.param({"ephemeral-storage": "1"}, [], ["Insufficient ephemeral-storage!"], id="storage not offered"),
    ],
)
def test_insufficient_resources_refuse_nodes(
    requests: dict[str, str], taken: list[dict[str, str]], refused: list[str]
) -> None:
    others = [pod(f"p{number}", one, on="a") for number, one in enumerate(taken)]
    assert reasons(NodeResourcesFit(), cycle(pod("new", requests), [node("a", SMALL)], others)) == {"a": refused}


@pytest.mark.parametrize(
    "arguments", [{"ignoredResources": ["example.com/fpga"]}, {"ignoredResourceGroups": ["example.com"]}]
)
def test_ignored_resources_do_not_refuse_nodes(arguments: dict[str, Any]) -> None:
    asked = cycle(pod("new", {"example.com/fpga": "1", "cpu": "9"}), [node("a", SMALL)])
    assert reasons(NodeResourcesFit(arguments), asked) == {"a": ["Insufficient cpu!"]}


def test_held_seats_and_terminating_pods_take_room() -> None:
    others = [pod("p", {"cpu": "1"}, on="a", leaving=True)]
    asked = cycle(pod("new", {"cpu": "2"}), [node("a", SMALL)], others)
    assert reasons(NodeResourcesFit(), asked) == {"a": ["Insufficient cpu"]}


RESTARTS_ALL = Container(restart_policy_rules=[ContainerRestartRule(action="RestartAllContainers")])


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param(PodSpec(containers=[RESTARTS_ALL]), "RestartAllContainersOnContainerExits", id="restart rules"),
        pytest.param(PodSpec(init_containers=[RESTARTS_ALL]), "RestartAllContainersOnContainerExits", id="init"),
        pytest.param(PodSpec(host_network=True, host_users=False), "UserNamespacesHostNetworkSupport", id="own users"),
        pytest.param(PodSpec(host_network=True), None, id="nothing special"),
        pytest.param(PodSpec(host_users=False), None, id="not on the host's network"),
    ],
)
def test_undeclared_features_refuse_nodes(spec: PodSpec, needed: str | None) -> None:
    able = node("able")
    able = replace(able, status=replace(able.status, declared_features=["Other", needed or ""]))
    refused = ["node(s) didn't match Pod's required features!"] if needed else []
    found = reasons(NodeDeclaredFeatures(), cycle(Pod(spec=spec), [able, node("plain")]))
    assert found == {"able": [], "plain": refused}


def test_scheduling_gates_are_named_in_the_refusal() -> None:
    gated = pod("new", scheduling_gates=[SchedulingGate(name="a.example/x"), SchedulingGate(name="y")])
    verdict = SchedulingGates().pre_enqueue(gated)
    assert verdict.reasons == ("waiting for scheduling gates: [a.example/x y]",)
    assert verdict.code is Code.UNRESOLVABLE
    assert SchedulingGates().pre_enqueue(pod("new")) is SUCCESS


def spread(consequence: str, **fields: Any) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(topology_key="zone", when_unsatisfiable=consequence, **fields)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"resource_claims": [PodResourceClaim(name="gpu"), PodResourceClaim(name="nic")]},
            "Restow does not support spec.resourceClaims: dynamic resource allocation of gpu, nic",
        ),
        (
            {"scheduling_group": SchedulingGroup(pod_group_name="train")},
            "Restow does not support spec.schedulingGroup: native pod group train; use a Volcano PodGroup",
        ),
        (
            {"topology_spread_constraints": [spread("DoNotSchedule"), spread("Nope")]},
            "Restow does not support spec.topologySpreadConstraints[1].whenUnsatisfiable: 'Nope'",
        ),
        (
            {"topology_spread_constraints": [spread("ScheduleAnyway", node_taints_policy="Nope")]},
            "Restow does not support spec.topologySpreadConstraints[0].nodeTaintsPolicy: 'Nope'",
        ),
    ],
)
def test_unsupported_fields_are_refused_by_name(fields: dict[str, Any], reason: str) -> None:
    verdict = Unsupported().pre_filter(cycle(pod("new", **fields), [node("a")]))
    assert (verdict.code, verdict.reasons) == (Code.UNRESOLVABLE, (reason,))


@pytest.mark.parametrize("plugin", [NodeName(), NodePorts(), node_affinity.NodeAffinity(), TaintToleration()])
def test_filters_skip_a_plain_pod_in_a_plain_cluster(plugin: FilterPlugin) -> None:
    assert plugin.pre_filter(cycle(pod("new"), [node("a")])).code is Code.SKIP


BAD_TERM = {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("plugin", "arguments", "paths"),
    [
        (NodeName, {"x": 1}, ["x"]),
        (TaintToleration, {"x": 1, "y": 2}, ["x", "y"]),
        (
            NodeResourcesFit,
            {"ignoredResources": ["cpu"], "ignoredResourceGroups": ["a/b"], "scoringStrategy": {"type": "Best"}},
            ["ignoredResources[0]", "ignoredResourceGroups[0]", "scoringStrategy.type"],
        ),
        (
            NodeResourcesFit,
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 0}, {"weight": "1"}], "x": 1}, "y": 1},
            ["scoringStrategy.resources[1].name", "scoringStrategy.resources[1].weight", "scoringStrategy.x", "y"],
        ),
        (
            NodeResourcesFit,
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            ["scoringStrategy.requestedToCapacityRatio.shape"],
        ),
        (NodeResourcesBalancedAllocation, {"formula": "Old"}, ["formula"]),
        (BinPacking, {"weights": {"cpu": 1, "example.com/gpu": 101}}, ["weights['example.com/gpu']"]),
        (
            node_affinity.NodeAffinity,
            {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [BAD_TERM]}}},
            ["addedAffinity"],
        ),
    ],
)
def test_wrong_filter_arguments_are_all_reported_with_their_paths(
    plugin: type[Plugin], arguments: dict[str, Any], paths: list[str]
) -> None:
    with pytest.raises(ArgumentError) as raised:
        plugin(arguments)
    assert [problem.split(": ")[0] for problem in raised.value.problems] == paths


def test_points_of_a_capacity_ratio_shape_are_checked() -> None:
    points = [{"utilization": 50, "score": 11}, {"utilization": 50, "score": 1}, {"utilization": 101, "score": -1}]
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points}}
    with pytest.raises(ArgumentError) as raised:
        NodeResourcesFit({"scoringStrategy": strategy})
    found = [problem.split("shape")[1].split(":")[0] for problem in raised.value.problems]
    assert found == ["[0].score", "[1].utilization", "[2].utilization", "[2].score"]
