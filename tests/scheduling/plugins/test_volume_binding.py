"""VolumeBinding: where the volumes of a pod can be had, and why not elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from restow.model.cluster.storage import StorageObject
from restow.model.objects import Node, NodeSelectorTerm, Pod, SelectorRequirement, SelectorSpec
from restow.scheduling.engine import Engine
from restow.scheduling.framework import ArgumentError, Code, Cycle
from restow.scheduling.plugins.volume_binding import VolumeBinding
from restow.scheduling.schedule_result import NoNodeFound
from tests.model.cluster.builders import pod
from tests.scheduling.plugins.volume_builders import (
    DRIVER,
    IN_B,
    LOCAL,
    MADE,
    NODES,
    ON_N1,
    ON_N2,
    capacity,
    claim,
    cluster,
    driver,
    on_label,
    storage_class,
    using,
    volume,
)


def answer(one: Pod, *items: StorageObject, nodes: list[Node] | None = None) -> NoNodeFound | list[str]:
    """The nodes that the filter accepts, or why there is none."""
    snapshot = cluster(NODES if nodes is None else nodes, *items)
    plugin = VolumeBinding()
    outcome = Engine([plugin]).find_node(Cycle(one, snapshot, 0.0))
    if isinstance(outcome, NoNodeFound):
        return outcome
    cycle = Cycle(one, snapshot, 0.0)
    if plugin.pre_filter(cycle).code is Code.SKIP:
        return snapshot.rows.names()
    mask = plugin.filter(cycle, snapshot.rows.every).tolist()
    return [name for name in snapshot.rows.names() if mask[snapshot.rows.find_row(name) or 0]]


# --- PreFilter --------------------------------------------------------------------------------------------------------

OWNED = using(ephemeral=("data",))
HOPELESS: dict[str, tuple[Pod, list[StorageObject], str]] = {
    "the claim is missing": (using("c"), [], 'persistentvolumeclaim "c" not found'),
    "the claim lost its volume": (
        using("c"),
        [claim("c", to="v", phase="Lost")],
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
    ),
    "the claim is going away": (using("c"), [claim("c", leaving=True)], 'persistentvolumeclaim "c" is being deleted'),
    "the ephemeral claim is not there yet": (
        OWNED,
        [],
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"',
    ),
    "the ephemeral claim is a namesake's": (
        OWNED,
        [claim("p-data", made_for=pod("other"))],
        "PVC default/p-data was not created for pod default/p (pod is not owner)",
    ),
    "a class that binds at once has not": (
        using("c"),
        [storage_class(waits=False), claim("c")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "there is no class": (using("c"), [claim("c")], "pod has unbound immediate PersistentVolumeClaims"),
    "the claim names its volume and is not bound yet": (
        using("c"),
        [LOCAL, claim("c", to="v", bound=False), volume("v")],
        "pod has unbound immediate PersistentVolumeClaims",
    ),
}


@pytest.mark.parametrize(("one", "items", "reason"), HOPELESS.values(), ids=HOPELESS.keys())
def test_volume_pre_filter_refuses_all_nodes(one: Pod, items: list[StorageObject], reason: str) -> None:
    outcome = answer(one, *items)
    assert isinstance(outcome, NoNodeFound)
    assert (outcome.verdict.code, outcome.verdict.reasons) == (Code.UNRESOLVABLE, (reason,))


def test_claim_with_an_unreadable_selector_is_an_error() -> None:
    broken = claim("c", selector=SelectorSpec(match_labels={}))
    expression = SelectorRequirement(key="k", operator="Between", values=["1", "2"])
    spec = broken.spec
    assert spec.selector is not None
    unreadable = replace(spec, selector=replace(spec.selector, match_expressions=[expression]))
    outcome = answer(using("c"), LOCAL, replace(broken, spec=unreadable))
    assert isinstance(outcome, NoNodeFound)
    assert outcome.verdict.code is Code.ERROR


@pytest.mark.parametrize("one", [pod("p"), using()], ids=["no volumes", "an empty list of volumes"])
def test_volume_binding_skips_pods_without_claims(one: Pod) -> None:
    assert VolumeBinding().pre_filter(Cycle(one, cluster(NODES), 0.0)).code is Code.SKIP


# --- Filter -----------------------------------------------------------------------------------------------------------

EVERYWHERE = ["n1", "n2", "n3"]
NAMED_N1 = SelectorRequirement(key="metadata.name", operator="In", values=["n1"])
TELLING: list[StorageObject] = [MADE, driver(), claim("c", of="made")]
ACCEPTED: dict[str, tuple[Pod, list[StorageObject], list[str]]] = {
    "a bound volume without affinity": (using("c"), [claim("c", to="v"), volume("v")], EVERYWHERE),
    "a bound volume of one zone": (using("c"), [claim("c", to="v"), volume("v", at=IN_B)], ["n3"]),
    "a bound volume of two places": (using("c"), [claim("c", to="v"), volume("v", at=[ON_N1, IN_B])], ["n1", "n3"]),
    "a bound volume that asks for a node by name, which volumes cannot": (
        using("c"),
        [claim("c", to="v"), volume("v", at=NodeSelectorTerm(match_fields=[NAMED_N1]))],
        EVERYWHERE,
    ),
    "two bound volumes": (
        using("c", "d"),
        [claim("c", to="v"), volume("v", at=on_label("zone", "a")), claim("d", to="w"), volume("w", at=[ON_N2, IN_B])],
        ["n2"],
    ),
    "an ephemeral claim of its own": (
        OWNED,
        [claim("p-data", to="v", made_for=OWNED), volume("v", at=IN_B)],
        ["n3"],
    ),
    "an available volume": (using("c"), [LOCAL, claim("c"), volume("v", at=ON_N2)], ["n2"]),
    "available volumes of several nodes": (
        using("c"),
        [LOCAL, claim("c"), volume("v", at=ON_N2), volume("w", at=IN_B)],
        ["n2", "n3"],
    ),
    "two claims and two volumes on one node": (
        using("c", "d"),
        [LOCAL, claim("c"), claim("d"), volume("v", at=ON_N2), volume("w", at=ON_N2), volume("x", at=ON_N1)],
        ["n2"],
    ),
    "two claims of two sizes": (
        using("large", "small"),
        [
            LOCAL,
            claim("large", "50Gi"),
            claim("small", "1Gi"),
            *(volume("l1", "60Gi", at=ON_N1), volume("s1", "2Gi", at=ON_N1)),
            *(volume("l2", "60Gi", at=ON_N2), volume("m2", "49Gi", at=IN_B)),
        ],
        ["n1"],
    ),
    "a volume that names the claim": (using("c"), [LOCAL, claim("c"), volume("v", at=IN_B, claim="c")], ["n3"]),
    "a volume that names the claim and others that do not": (
        using("c"),
        [LOCAL, claim("c"), volume("v", at=IN_B, claim="c", phase="Bound"), volume("w")],
        ["n3"],
    ),
    "a volume that names the claim and is too small, so it does not count": (
        using("c"),
        [LOCAL, claim("c"), volume("v", "1Gi", at=IN_B, claim="c"), volume("w", at=ON_N1)],
        ["n1"],
    ),
    "a volume to be made": (using("c"), [MADE, claim("c", of="made")], EVERYWHERE),
    "a volume to be made in one zone": (
        using("c"),
        [storage_class("made", DRIVER, topologies=[{"zone": ["b", "c"]}]), claim("c", of="made")],
        ["n3"],
    ),
    "a volume to be made on one host of a zone, or in another zone": (
        using("c"),
        [
            storage_class("made", DRIVER, topologies=[{"zone": ["a"], "host": ["n2"]}, {"zone": ["b"]}]),
            claim("c", of="made"),
        ],
        ["n2", "n3"],
    ),
    "a volume to be made for the selected node": (
        using("c"),
        [MADE, claim("c", of="made", selected="n2"), volume("v", of="made", at=ON_N1)],
        ["n2"],
    ),
    "an available volume here, one to be made elsewhere": (
        using("c"),
        [
            storage_class("made", DRIVER, topologies=[{"zone": ["b"]}]),
            claim("c", of="made"),
            volume("v", of="made", at=ON_N1),
        ],
        ["n1", "n3"],
    ),
    "space where the driver says there is": (
        using("c"),
        [
            MADE,
            driver(),
            claim("c", of="made"),
            capacity("a", "4Gi", {"zone": "a"}),
            capacity("b", "5Gi", {"zone": "b"}),
        ],
        ["n3"],
    ),
    "the largest volume counts before the space": (
        using("c"),
        [
            *TELLING,
            capacity("a", "90Gi", {"zone": "a"}, largest="4Gi"),
            capacity("b", "1Gi", {"zone": "b"}, largest="6Gi"),
        ],
        ["n3"],
    ),
    "space of a driver that does not tell": (
        using("c"),
        [MADE, driver(tells_capacity=False), claim("c", of="made")],
        EVERYWHERE,
    ),
    "space for a claim that does not say how much": (
        using("c"),
        [MADE, driver(), claim("c", None, of="made")],
        EVERYWHERE,
    ),
}


@pytest.mark.parametrize(("one", "items", "nodes"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_volume_filter_accepts_the_nodes_with_a_volume(one: Pod, items: list[StorageObject], nodes: list[str]) -> None:
    assert answer(one, *items) == nodes


NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REFUSED: dict[str, tuple[Pod, list[StorageObject], str]] = {
    "the volume is elsewhere": (
        using("c"),
        [claim("c", to="v"), volume("v", at=on_label("zone", "z"))],
        f"3 {NOT_REACHED}",
    ),
    "the volume is gone": (using("c"), [claim("c", to="v")], f"3 {GONE}"),
    "one volume is elsewhere for some, another gone for the rest": (
        using("c", "d"),
        [claim("c", to="v"), volume("v", at=IN_B), claim("d", to="w")],
        f"1 {GONE}, 2 {NOT_REACHED}",
    ),
    "there are no volumes": (using("c"), [LOCAL, claim("c")], f"3 {NO_VOLUME}"),
    "the volumes are too small": (using("c"), [LOCAL, claim("c", "11Gi"), volume("v")], f"3 {NO_VOLUME}"),
    "the volumes are of another class": (using("c"), [LOCAL, claim("c"), volume("v", of="x")], f"3 {NO_VOLUME}"),
    "the volumes are raw blocks": (
        using("c"),
        [LOCAL, claim("c"), volume("v", volume_mode="Block")],
        f"3 {NO_VOLUME}",
    ),
    "the volumes have other attributes": (
        using("c"),
        [LOCAL, claim("c"), volume("v", volume_attributes_class_name="gold")],
        f"3 {NO_VOLUME}",
    ),
    "the volumes cannot be shared": (
        using("c"),
        [LOCAL, claim("c", access_modes=["ReadWriteMany"]), volume("v")],
        f"3 {NO_VOLUME}",
    ),
    "the volumes do not have the labels": (
        using("c"),
        [LOCAL, claim("c", selector=SelectorSpec(match_labels={"disk": "ssd"})), volume("v", labels={"disk": "hdd"})],
        f"3 {NO_VOLUME}",
    ),
    "the volumes are another claim's": (using("c"), [LOCAL, claim("c"), volume("v", claim="d")], f"3 {NO_VOLUME}"),
    "the volume names a claim of the same name that is no more": (
        using("c"),
        [LOCAL, claim("c"), volume("v", claim="c", claim_uid="old")],
        f"3 {NO_VOLUME}",
    ),
    "the volumes are released and not yet available": (
        using("c"),
        [LOCAL, claim("c"), volume("v", phase="Released")],
        f"3 {NO_VOLUME}",
    ),
    "the volumes are going away": (using("c"), [LOCAL, claim("c"), volume("v", leaving=True)], f"3 {NO_VOLUME}"),
    "there is one volume for two claims": (
        using("c", "d"),
        [LOCAL, claim("c"), claim("d"), volume("v")],
        f"3 {NO_VOLUME}",
    ),
    "the selected node is gone": (
        using("c"),
        [MADE, claim("c", of="made", selected="gone")],
        f"3 {NO_VOLUME}",
    ),
    "two claims have different selected nodes": (
        using("c", "d"),
        [MADE, claim("c", of="made", selected="n1"), claim("d", of="made", selected="n2")],
        f"3 {NO_VOLUME}",
    ),
    "no node has space": (using("c"), [MADE, driver(), claim("c", of="made")], f"3 {NO_SPACE}"),
    "some have no space and others may not have it made": (
        using("c"),
        [storage_class("made", DRIVER, topologies=[{"zone": ["b"]}]), driver(), claim("c", of="made")],
        f"1 {NO_SPACE}, 2 {NO_VOLUME}",
    ),
    "the bound one is elsewhere and there is none for the other": (
        using("c", "d"),
        [LOCAL, claim("c", to="v"), volume("v", at=IN_B, claim="c"), claim("d")],
        f"2 {NOT_REACHED}, 3 {NO_VOLUME}",
    ),
}


@pytest.mark.parametrize(("one", "items", "reasons"), REFUSED.values(), ids=REFUSED.keys())
def test_volume_filter_refuses_every_node(one: Pod, items: list[StorageObject], reasons: str) -> None:
    outcome = answer(one, *items)
    assert isinstance(outcome, NoNodeFound)
    assert outcome.message == f"0/3 nodes are available: {reasons}."
    assert outcome.verdict.code is Code.UNRESOLVABLE


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"bindTimeoutSeconds": -1}, "bindTimeoutSeconds: must not be negative"),
        ({"bindTimeout": 1}, "bindTimeout"),
        ({"bindTimeoutSeconds": "long"}, "bindTimeoutSeconds"),
    ],
    ids=["negative", "unknown", "not a number"],
)
def test_wrong_volume_binding_arguments_are_refused_with_their_path(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        VolumeBinding(arguments)


def test_volume_filter_of_no_rows_is_empty() -> None:
    snapshot = cluster(NODES, LOCAL, claim("c"), volume("v", at=ON_N2), volume("w"))
    plugin, cycle = VolumeBinding(), Cycle(using("c"), snapshot, 0.0)
    assert plugin.pre_filter(cycle).code is Code.SUCCESS
    assert plugin.filter(cycle, np.zeros(0, np.intp)).tolist() == []
