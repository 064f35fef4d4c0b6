"""Storage objects in the snapshot: late and repeated events, assumptions and their end, undo."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.cluster.storage import OutOfSync, StorageObject, claim_requirements
from restow.model.objects import PersistentVolume, PersistentVolumeClaim
from restow.model.quantity import QuantityError
from restow.model.snapshot import Snapshot
from tests.model.cluster.builders import node
from tests.scheduling.plugins.volume_builders import (
    DRIVER,
    attachment,
    capacity,
    claim,
    cluster,
    csi_node,
    csi_volume,
    driver,
    on_label,
    storage_class,
    using,
    volume,
)

NODES = [node("n1", labels={"zone": "a", "host": "n1"}), node("n2", labels={"zone": "b", "host": "n2"})]


def taken(one: PersistentVolume, by: str = "c") -> PersistentVolume:
    reference = volume("x", claim=by, claim_uid=f"uid-{by}").spec.claim_ref
    return replace(one, spec=replace(one.spec, claim_ref=reference))


def choices(snapshot: Snapshot, size: str = "5Gi", of: str = "local") -> list[str | None]:
    """The volume a claim would get on each node."""
    pool = snapshot.storage.offers.pool(of)
    [chosen] = pool.choose_volumes([claim_requirements(claim("c", size, of=of))], snapshot.rows.every)
    return [pool.offers[number].volume.metadata.name if number >= 0 else None for number in chosen.tolist()]


# --- events -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "left"),
    [
        (["+1"], "1"),
        (["+1", "+2"], "2"),
        (["+2", "+1"], "2"),
        (["+2", "+2"], "2"),
        (["+1", "-2"], None),
        (["+1", "-2", "+1"], None),
        (["+1", "-2", "+3"], "3"),
        (["+3", "-2"], "3"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, list) else "",
)
def test_late_and_repeated_storage_events_change_nothing(events: list[str], left: str | None) -> None:
    snapshot = Snapshot()
    for event in events:
        act = snapshot.apply_storage if event[0] == "+" else snapshot.remove_storage
        act(volume("v", version=event[1:]))
    found = snapshot.storage.volume("v")
    assert (found.metadata.resource_version if found else None) == left


@pytest.mark.parametrize(
    "item",
    [volume("v", "lots"), claim("c", "lots"), capacity("c", "lots", {})],
    ids=["a volume", "a claim", "a capacity"],
)
def test_invalid_quantity_raises_and_changes_nothing(item: StorageObject) -> None:
    snapshot = Snapshot()
    with pytest.raises(QuantityError):
        snapshot.apply_storage(item)
    assert state(snapshot) == state(Snapshot())


# --- assumptions ------------------------------------------------------------------------------------------------------


def test_assumed_volume_is_bound_until_it_is_forgotten() -> None:
    shown = volume("v")
    snapshot = cluster(NODES, shown)
    snapshot.storage.volumes.assume(after := taken(shown))
    assert (choices(snapshot), snapshot.storage.volume("v")) == ([None, None], after)
    snapshot.storage.volumes.forget(after)
    assert (choices(snapshot), snapshot.storage.volume("v")) == (["v", "v"], shown)


def test_assume_requires_the_version_that_is_shown() -> None:
    snapshot = cluster(NODES, volume("v", version=2))
    with pytest.raises(OutOfSync, match=r"'v' is out of sync \(stored: 2, assume: 1\)"):
        snapshot.storage.volumes.assume(taken(volume("v", version=1)))
    with pytest.raises(OutOfSync, match="not there any more"):
        snapshot.storage.volumes.assume(taken(volume("other")))


def test_newer_version_ends_an_assumption_and_forget_then_does_nothing() -> None:
    snapshot = cluster(NODES, volume("v"))
    snapshot.storage.volumes.assume(after := taken(volume("v")))
    snapshot.apply_storage(newer := volume("v", "20Gi", version=2))
    assert snapshot.storage.volume("v") is newer
    snapshot.storage.volumes.forget(after)
    assert snapshot.storage.volume("v") is newer


def test_repeated_event_does_not_end_an_assumption() -> None:
    snapshot = cluster(NODES, volume("v"))
    snapshot.storage.volumes.assume(after := taken(volume("v")))
    snapshot.apply_storage(volume("v"))
    assert snapshot.storage.volume("v") is after


def test_deletion_ends_an_assumption() -> None:
    snapshot = cluster(NODES, volume("v"))
    snapshot.storage.volumes.assume(taken(volume("v")))
    snapshot.remove_storage(volume("v", version=2))
    assert snapshot.storage.volume("v") is None
    assert snapshot.storage.volumes.assumed() == []


def test_forget_leaves_the_assumption_of_another_pod() -> None:
    snapshot = cluster(NODES, claim("c"))
    mine, theirs = claim("c", selected="n1"), claim("c", selected="n1")
    snapshot.storage.claims.assume(mine)
    snapshot.storage.claims.assume(theirs)
    snapshot.storage.claims.forget(mine)
    assert snapshot.storage.claim("default", "c") is theirs


# --- undo -------------------------------------------------------------------------------------------------------------

TRIALS: dict[str, Callable[[Snapshot], object]] = {
    "a volume comes": lambda s: s.apply_storage(volume("new", "6Gi")),
    "a volume grows": lambda s: s.apply_storage(volume("here", "90Gi", at=on_label("host", "n1"), version=2)),
    "a volume is taken": lambda s: s.apply_storage(volume("here", claim="c", version=2)),
    "a volume moves to another class": lambda s: s.apply_storage(volume("here", of="made", version=2)),
    "a volume is about to go": lambda s: s.apply_storage(volume("here", leaving=True, version=2)),
    "a volume goes": lambda s: s.remove_storage(volume("here", version=2)),
    "a held volume is let go": lambda s: s.apply_storage(volume("held", version=2)),
    "a volume is assumed taken": lambda s: s.storage.volumes.assume(taken(s.storage.volume("here") or volume("x"))),
    "an assumed volume is restored": lambda s: s.storage.volumes.forget(s.storage.volumes.assumed()[0]),
    "an assumed volume is shown": lambda s: s.apply_storage(volume("assumed", claim="c", version=2)),
    "a claim comes": lambda s: s.apply_storage(claim("new")),
    "a claim is bound": lambda s: s.apply_storage(claim("c", to="held", version=2)),
    "a claim goes": lambda s: s.remove_storage(claim("c", version=2)),
    "a claim's node is assumed selected": lambda s: s.storage.claims.assume(claim("c", selected="n1")),
    "a class comes": lambda s: s.apply_storage(storage_class("new")),
    "a class goes": lambda s: s.remove_storage(storage_class("made")),
    "a driver changes its mind": lambda s: s.apply_storage(driver(tells_capacity=False)),
    "a capacity comes": lambda s: s.apply_storage(capacity("b", "50Gi", {"zone": "b"})),
    "a capacity shrinks": lambda s: s.apply_storage(capacity("a", "1Gi", {"zone": "a"})),
    "a capacity for all nodes is deleted": lambda s: s.remove_storage(capacity("all", "1Gi", {})),
    "a volume is attached": lambda s: s.apply_storage(attachment("n2", "held")),
    "a volume is detached": lambda s: s.remove_storage(attachment("n1", "held")),
    "a limit changes": lambda s: s.apply_storage(csi_node("n1", 9, version=2)),
    "a pod with volumes comes": lambda s: s.apply_pod(using("c", name="new", on="n2")),
    "a pod with volumes goes": lambda s: s.remove_pod(using("c", name="old", on="n1")),
    "a node goes": lambda s: s.remove_node(node("n2")),
    "a node comes": lambda s: s.apply_node(node("n3", labels={"zone": "a"})),
}


@pytest.fixture
def snapshot() -> Snapshot:
    found = cluster(
        NODES,
        volume("here", at=on_label("host", "n1")),
        volume("there", "7Gi", at=[on_label("zone", "b"), on_label("zone", "c")]),
        volume("held", claim="c", csi=csi_volume("h1")),
        volume("assumed", "6Gi"),
        claim("c", of="made"),
        storage_class("made", DRIVER),
        driver(),
        capacity("a", "10Gi", {"zone": "a"}),
        capacity("all", "1Gi", {}),
        csi_node("n1", 2),
        attachment("n1", "held"),
        pods=[using("c", name="old", on="n1")],
    )
    found.storage.volumes.assume(taken(volume("assumed", "6Gi"), by="other"))
    return found


def state(snapshot: Snapshot) -> dict[str, Any]:
    """Every value that undo must restore, and what is derived from them."""
    storage, mounts = snapshot.storage, snapshot.mounts
    return {
        "tables": {kind.__name__: dict(table._shown) for kind, table in storage._tables.items()},
        "versions": {kind.__name__: dict(table._versions._live) for kind, table in storage._tables.items()},
        "assumed": (storage.volumes.assumed(), storage.claims.assumed()),
        "available": {name: dict(pool._available) for name, pool in storage.offers._pools.items() if len(pool)},
        "held": storage.offers._prebound,
        "claims of": storage._claims_of,
        "attached": (storage.attachment_index._by_node, storage.attachment_index._nodes_of),
        "choices": [choices(snapshot, size, of) for size in ("1Gi", "6Gi", "8Gi") for of in ("local", "made")],
        "largest": storage.provisionable("made").largest_sizes(snapshot.rows.every).tolist(),
        "mounts": (mounts._by_row, mounts._claims, mounts._disks),
        "too many": [
            snapshot.attached.exceeding_limit([(DRIVER, f"x{n}") for n in range(count)], snapshot.rows.every).tolist()
            for count in range(4)
        ],
    }


@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS.keys())
def test_undo_restores_every_value_after_a_try(snapshot: Snapshot, trial: Callable[[Snapshot], object]) -> None:
    before, mark = copy.deepcopy(state(snapshot)), snapshot.mark()
    trial(snapshot)
    assert copy.deepcopy(state(snapshot)) != before
    snapshot.undo_to(mark)
    assert copy.deepcopy(state(snapshot)) == before


def test_undo_restores_every_value_after_all_tries_together(snapshot: Snapshot) -> None:
    before, mark = copy.deepcopy(state(snapshot)), snapshot.mark()
    for name, trial in TRIALS.items():
        if "assumed" not in name:
            trial(snapshot)
    snapshot.undo_to(mark)
    assert copy.deepcopy(state(snapshot)) == before


# --- what is derived --------------------------------------------------------------------------------------------------


def test_volume_that_becomes_available_again_keeps_its_number(snapshot: Snapshot) -> None:
    assert choices(snapshot) == ["here", "there"]
    shown: PersistentVolumeClaim | PersistentVolume | None = snapshot.storage.volume("here")
    assert isinstance(shown, PersistentVolume)
    snapshot.storage.volumes.assume(after := taken(shown))
    assert choices(snapshot) == [None, "there"]
    snapshot.storage.volumes.forget(after)
    assert choices(snapshot) == ["here", "there"]


def test_largest_provisionable_size_is_the_maximum_over_topologies(snapshot: Snapshot) -> None:
    largest = snapshot.storage.provisionable("made").largest_sizes
    assert largest(snapshot.rows.every).tolist() == [10 * 2**30, 2**30]
    snapshot.apply_node(node("n3", labels={"zone": "unknown"}))
    assert largest(snapshot.rows.every).tolist() == [10 * 2**30, 2**30, 2**30]
