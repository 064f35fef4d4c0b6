"""Seats of pods with volumes: a volume for a single pod is handed over, never shared."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.objects import (
    ClaimVolume,
    EphemeralVolume,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    Pod,
    Reservation,
    StorageClass,
    TaskSpec,
    Volume,
    VolumeResources,
)
from restow.model.volumes import DEFAULT_CLASS
from tests.model.cluster.builders import node
from tests.model.reservations.builders import task, web_pod, web_reservation
from tests.scheduling.plugins.volume_builders import claim, on_label, storage_class, volume
from tests.scheduling.reservations.session_cluster import SessionCluster

ALONE = ["ReadWriteOncePod"]
DATA = [Volume(name="v", persistent_volume_claim=ClaimVolume(claim_name="data"))]


def cluster(*things: Pod | Reservation, modes: list[str] = ALONE) -> SessionCluster:
    made = SessionCluster(*(node(name, labels={"zone": name[0]}) for name in ("a1", "a2", "b1")))
    reachable = on_label("zone", "a")
    made.snapshot.apply_storage(
        volume("pv", at=reachable, claim="data", claim_uid="uid-data", phase="Bound", access_modes=modes)
    )
    made.snapshot.apply_storage(claim("data", to="pv", access_modes=modes))
    for thing in things:
        made.show(thing)
    return made


def seat(**fields: Any) -> TaskSpec:
    return task(1, {}, volumes=DATA, **fields)


def owner(name: str, **fields: Any) -> Pod:
    return web_pod(name, {}, volumes=DATA, **fields)


def test_seat_is_placed_where_its_volume_can_be_reached() -> None:
    assert cluster().session(web_reservation("r", seat(nodes=["b1", "a2"]))).held == {"r": ["a2"]}


def test_claim_of_a_held_seat_is_not_usable_by_other_pods() -> None:
    said = cluster(web_reservation("r", seat(), at={0: "a1"}, owners=[])).session(owner("p")).refused_pods["p"]
    assert "ReadWriteOncePod" in said


def test_claim_of_a_held_seat_is_usable_by_its_pod() -> None:
    assert cluster(web_reservation("r", seat(), at={0: "a1"})).session(owner("p")).seats == {"p": "r/t/0"}


@pytest.mark.parametrize(("migrating", "held"), [("uid-old", {"r": ["a2"]}), (None, {})])
def test_claim_of_a_migrating_pod_may_be_reserved_for_its_successor(
    migrating: str | None, held: dict[str, list[str]]
) -> None:
    running = cluster(owner("old", on="a1"))
    assert running.session(web_reservation("r", seat(nodes=["a2"]), migrating=migrating)).held == held


@pytest.mark.parametrize("modes", [ALONE, ["ReadWriteOnce"]])
def test_successor_waits_until_its_predecessor_has_left_the_claim(modes: list[str]) -> None:
    leaving = owner("web-0", on="a1", uid="uid-old", leaving=True)
    moved = web_reservation("restow-1", seat(), at={0: "a2"}, match_policy="Fits", migrating="uid-old")
    moving = cluster(leaving, moved, modes=modes)
    moving.now = 1767225600.0
    successor = owner("web-0", uid="uid-new")
    outcome = moving.session(successor)
    if modes == ALONE:
        assert outcome.refused_pods == {
            "web-0": "waiting for default/web-0 to leave: its seat default/restow-1/t/0 on node a2 is kept"
        }
        moving.snapshot.remove_pod(leaving)
        outcome = moving.session(successor)
    assert outcome.seats == {"web-0": "restow-1/t/0"}


def test_seat_with_an_unreachable_volume_is_unfit() -> None:
    late = cluster(web_reservation("r", seat(), at={0: "a1"}), modes=["ReadWriteOnce"])
    late.show(node("a1", labels={"zone": "c"}))
    outcome = late.session(owner("p"))
    assert (outcome.nodes, outcome.events["p"][0]) == ({"p": "a2"}, "ReservationNotUsed")


# --- claims that are made for a pod -----------------------------------------------------------------------------------


def scratch(class_name: str | None = "made") -> TaskSpec:
    spec = PersistentVolumeClaimSpec(
        storage_class_name=class_name, resources=VolumeResources(requests={"storage": "1Gi"})
    )
    source = EphemeralVolume(volume_claim_template=PersistentVolumeClaimTemplate(spec=spec))
    return task(1, {}, volumes=[Volume(name="scratch", ephemeral=source)])


def shelf(*classes: StorageClass) -> SessionCluster:
    made = cluster()
    for one in classes:
        made.snapshot.apply_storage(one)
    return made


ONLY_B = storage_class("made", "csi.example", topologies=[{"zone": ["b"]}])
AT_ONCE = storage_class("made", "csi.example", waits=False)
DEFAULT = replace(ONLY_B, metadata=replace(ONLY_B.metadata, annotations={DEFAULT_CLASS: "true"}))


@pytest.mark.parametrize(
    ("known", "wanted", "where"),
    [
        pytest.param(ONLY_B, "made", ["b1"], id="where its class makes volumes"),
        pytest.param(DEFAULT, None, ["b1"], id="of the default class if it names none"),
        pytest.param(AT_ONCE, "made", ["a1"], id="anywhere, if it is bound by itself"),
    ],
)
def test_claim_to_be_provisioned_counts_for_placement(
    known: StorageClass, wanted: str | None, where: list[str]
) -> None:
    assert shelf(known).session(web_reservation("r", scratch(wanted))).held == {"r": where}


def test_claim_that_no_node_can_provision_is_refused_with_numbers() -> None:
    said = shelf(storage_class("made")).session(web_reservation("r", scratch())).refused_reservations["r"]
    assert "3 node(s) didn't find available persistent volumes to bind" in said
