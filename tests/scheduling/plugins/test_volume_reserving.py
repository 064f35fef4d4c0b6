"""How volumes are taken for a pod, given back, written and waited for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from restow.model.cluster.storage import StorageObject
from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.scheduling.engine import Engine
from restow.scheduling.framework import Code, Cycle, Verdict
from restow.scheduling.plugins.volume_binding import VolumeBinding
from restow.scheduling.schedule_result import NodeFound
from restow.scheduling.writes import Patch
from tests.scheduling.plugins.volume_builders import (
    IN_B,
    LOCAL,
    MADE,
    N1,
    NODES,
    ON_N1,
    ON_N2,
    claim,
    cluster,
    using,
    volume,
)

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


# --- Reserve and Unreserve --------------------------------------------------------------------------------------------


class Story:
    """One pod's way from Reserve to the end, on a chosen node."""

    def __init__(self, one: Pod, *items: StorageObject, on: str = "n1", **arguments: Any) -> None:
        self.snapshot = cluster(NODES, *items)
        self.plugin = VolumeBinding(arguments)
        self.cycle = Cycle(one, self.snapshot, 100.0)
        self.node = on

    def reserve(self) -> Verdict:
        self.snapshot.assume(self.cycle.pod, self.node, at=0.0)
        return self.plugin.reserve(self.cycle, self.node)

    def unreserve(self) -> None:
        self.plugin.unreserve(self.cycle, self.node)

    def pre_bind(self) -> list[Patch]:
        writes = self.plugin.pre_bind(self.cycle, self.node)
        return [write for write in writes if isinstance(write, Patch)]

    def settled(self) -> Verdict:
        return self.plugin.settled(self.cycle, self.node)

    def written(self) -> Story:
        """Reserve and PreBind have happened."""
        assert self.reserve().code is Code.SUCCESS
        self.pre_bind()
        return self

    def show(self, *items: StorageObject) -> Story:
        for item in items:
            self.snapshot.apply_storage(item)
        return self


def view(snapshot: Snapshot) -> tuple[list[Any], list[Any]]:
    return snapshot.storage.volumes.assumed(), snapshot.storage.claims.assumed()


BOTH: list[StorageObject] = [
    LOCAL,
    MADE,
    claim("c"),
    claim("d", of="made"),
    volume("v", at=ON_N1),
    volume("w", "99Gi", at=ON_N1),
]


def test_reserve_takes_the_smallest_volume_and_selects_the_node() -> None:
    story = Story(using("c", "d"), *BOTH)
    assert story.reserve().code is Code.SUCCESS
    [taken], [selected] = view(story.snapshot)
    assert (taken.metadata.name, taken.spec.claim_ref.uid) == ("v", "uid-c")
    assert taken.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert selected.metadata.annotations == {"volume.kubernetes.io/selected-node": "n1"}


def test_unreserve_restores_the_volumes_and_may_be_repeated() -> None:
    story = Story(using("c", "d"), *BOTH)
    story.reserve()
    for _ in range(2):
        story.unreserve()
        assert view(story.snapshot) == ([], [])
    assert story.plugin.reserve(story.cycle, "n1").code is Code.SUCCESS


def test_unreserve_without_reserve_and_on_another_node_does_nothing() -> None:
    story = Story(using("c"), *BOTH)
    story.unreserve()
    story.reserve()
    story.plugin.unreserve(story.cycle, "n2")
    assert len(view(story.snapshot)[0]) == 1


def test_a_watch_event_in_between_wins_over_reserve_and_unreserve() -> None:
    story = Story(using("c", "d"), *BOTH)
    story.reserve()
    others = volume("v", at=ON_N1, claim="x", claim_uid="uid-x", version=2)
    story.show(others, claim("d", of="made", selected="n3", version=2))
    story.unreserve()
    assert story.snapshot.storage.volume("v") is others
    found = story.snapshot.storage.claim("default", "d")
    assert found is not None
    assert (found.metadata.annotations or {})["volume.kubernetes.io/selected-node"] == "n3"


def test_reserved_volume_is_not_given_to_the_next_pod() -> None:
    story = Story(using("c"), *BOTH, claim("e"), claim("f"))
    story.reserve()
    other = Cycle(using("e", name="q"), story.snapshot, 0.0)
    assert story.plugin.reserve(other, "n1").code is Code.SUCCESS
    assert [one.metadata.name for one in view(story.snapshot)[0]] == ["v", "w"]
    third = story.plugin.reserve(Cycle(using("f", name="r"), story.snapshot, 0.0), "n1")
    assert third == Verdict(Code.UNRESOLVABLE, (NO_VOLUME,))


def test_pod_that_shares_a_claim_follows_the_first_pods_choice() -> None:
    story = Story(using("d"), *BOTH)
    story.reserve()
    second = Cycle(using("d", name="q"), story.snapshot, 0.0)
    assert isinstance(placed := Engine([VolumeBinding()]).find_node(second), NodeFound)
    assert placed.node == "n1"


def test_undo_takes_the_reserved_volumes_back() -> None:
    story = Story(using("c", "d"), *BOTH)
    mark = story.snapshot.mark()
    story.reserve()
    story.snapshot.undo_to(mark)
    assert view(story.snapshot) == ([], [])
    story.unreserve()
    assert view(story.snapshot) == ([], [])


def test_reserve_does_nothing_for_bound_claims() -> None:
    story = Story(using("c"), claim("c", to="v"), volume("v"))
    assert (story.reserve().code, story.pre_bind(), story.settled().code) == (Code.SUCCESS, [], Code.SUCCESS)


def test_reserve_sees_changes_since_the_filter() -> None:
    story = Story(using("c"), *BOTH)
    story.snapshot.remove_storage(claim("c", version=2))
    assert story.reserve() == Verdict(Code.UNRESOLVABLE, ('persistentvolumeclaim "c" not found',))


# --- PreBind ----------------------------------------------------------------------------------------------------------


def test_pre_bind_writes_volumes_before_claims_with_the_version_decided_on() -> None:
    story = Story(using("d", "c"), *BOTH)
    story.reserve()
    first, second = story.pre_bind()
    assert (first.kind.kind, first.name, first.namespace, first.resource_version) == (
        "PersistentVolume",
        "v",
        None,
        "1",
    )
    assert first.changes == {
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "c",
                "uid": "uid-c",
                "resourceVersion": "1",
            }
        },
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
    }
    assert (second.kind.kind, second.namespace, second.name) == ("PersistentVolumeClaim", "default", "d")
    assert second.changes == {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}


def test_volume_that_names_the_claim_already_only_gets_its_uid() -> None:
    story = Story(using("c"), LOCAL, claim("c"), volume("v", claim="c"))
    story.reserve()
    [write] = story.pre_bind()
    assert "metadata" not in write.changes


def test_pre_bind_does_not_write_what_the_api_shows_already() -> None:
    story = Story(
        using("c", "d"),
        *(LOCAL, MADE, claim("c"), volume("v", claim="c", claim_uid="uid-c"), claim("d", of="made", selected="n1")),
    )
    story.reserve()
    assert story.pre_bind() == []
    assert story.settled().code is Code.WAIT


# --- settling ---------------------------------------------------------------------------------------------------------

TAKEN = volume("v", at=ON_N1, claim="c", claim_uid="uid-c", phase="Bound", version=2)
SETTLING: dict[str, tuple[list[StorageObject], Code, str]] = {
    "nothing is shown yet": ([], Code.WAIT, ""),
    "the volume shows it, the claim is not bound": ([TAKEN], Code.WAIT, ""),
    "the claim names the volume and is not complete": (
        [TAKEN, claim("c", to="v", bound=False, version=2)],
        Code.WAIT,
        "",
    ),
    "the claim is bound before the volume shows it": ([claim("c", to="v", version=2)], Code.WAIT, ""),
    "the claim is bound": ([TAKEN, claim("c", to="v", version=2)], Code.SUCCESS, ""),
    "the volume was let go": (
        [volume("v", at=ON_N1, version=3)],
        Code.ERROR,
        'binding volumes: ClaimRef got reset for pv "v"',
    ),
    "the volume is elsewhere after all": (
        [replace(TAKEN, spec=volume("v", at=ON_N2, claim="c", claim_uid="uid-c").spec)],
        Code.ERROR,
        'binding volumes: pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
    ),
}


@pytest.mark.parametrize(("shown", "code", "reason"), SETTLING.values(), ids=SETTLING.keys())
def test_taken_volume_settles_when_the_claim_is_bound(shown: list[StorageObject], code: Code, reason: str) -> None:
    story = Story(using("c"), *BOTH).written().show(*shown)
    assert story.settled() == Verdict(code, (reason,) if reason else ())


MAKING: dict[str, tuple[list[StorageObject], Code, str]] = {
    "nothing is shown yet": ([], Code.WAIT, ""),
    "the node is selected": ([claim("d", of="made", selected="n1", version=2)], Code.WAIT, ""),
    "the volume's event is late": ([claim("d", of="made", selected="n1", to="m", version=2)], Code.WAIT, ""),
    "the volume is there, the claim is not complete": (
        [claim("d", of="made", selected="n1", to="m", bound=False, version=2), volume("m")],
        Code.WAIT,
        "",
    ),
    "the claim is bound": ([claim("d", of="made", selected="n1", to="m", version=2), volume("m")], Code.SUCCESS, ""),
    "the provisioner gave up": (
        [claim("d", of="made", version=3)],
        Code.ERROR,
        'binding volumes: provisioning failed for PVC "d"',
    ),
    "another node was selected": (
        [claim("d", of="made", selected="n2", version=3)],
        Code.ERROR,
        'binding volumes: provisioning failed for PVC "d"',
    ),
    "the volume was made elsewhere": (
        [claim("d", of="made", selected="n1", to="m", version=2), volume("m", at=IN_B)],
        Code.ERROR,
        'binding volumes: pv "m" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
    ),
}


@pytest.mark.parametrize(("shown", "code", "reason"), MAKING.values(), ids=MAKING.keys())
def test_provisioned_volume_settles_when_the_claim_is_bound(
    shown: list[StorageObject], code: Code, reason: str
) -> None:
    story = Story(using("d"), *BOTH).written().show(*shown)
    assert story.settled() == Verdict(code, (reason,) if reason else ())


GOING: dict[str, tuple[Any, str]] = {
    "the node": (lambda s: s.snapshot.remove_node(N1), 'failed to get node "n1": node "n1" not found'),
    "the pod": (lambda s: s.snapshot.remove_pod(s.cycle.pod), 'pod does not exist any more: pod "p" not found'),
    "the volume": (
        lambda s: s.snapshot.remove_storage(volume("v", version=2)),
        'failed to check binding: persistentvolume "v" not found',
    ),
    "the claim": (
        lambda s: s.snapshot.remove_storage(claim("c", version=2)),
        'failed to check binding: persistentvolumeclaim "c" not found',
    ),
    "the claim in the making": (
        lambda s: s.snapshot.remove_storage(claim("d", of="made", version=2)),
        'failed to check provisioning pvc: persistentvolumeclaim "d" not found',
    ),
}


@pytest.mark.parametrize(("goes", "reason"), GOING.values(), ids=GOING.keys())
def test_volume_binding_fails_when_an_object_is_gone(goes: Any, reason: str) -> None:
    story = Story(using("c", "d"), *BOTH).written()
    goes(story)
    assert story.settled() == Verdict(Code.ERROR, (f"binding volumes: {reason}",))


@pytest.mark.parametrize(("waited", "code"), [(599.9, Code.WAIT), (600, Code.ERROR)], ids=["in time", "too late"])
def test_volume_binding_times_out_after_ten_minutes(waited: float, code: Code) -> None:
    story = Story(using("c"), *BOTH).written()
    story.cycle.now += waited
    verdict = story.settled()
    assert verdict.code is code
    assert verdict.reasons == (("binding volumes: context deadline exceeded",) if code is Code.ERROR else ())


def test_volume_bound_at_the_timeout_is_not_too_late() -> None:
    story = Story(using("c"), *BOTH, bindTimeoutSeconds=5).written().show(TAKEN, claim("c", to="v", version=2))
    story.cycle.now += 60
    assert story.settled().code is Code.SUCCESS


def test_claim_keeps_its_selected_node_after_a_failure() -> None:
    story = Story(using("d"), *BOTH).written().show(claim("d", of="made", selected="n1", version=2))
    story.unreserve()
    story.snapshot.forget(story.cycle.pod)
    again = Engine([VolumeBinding()]).find_node(Cycle(using("d"), story.snapshot, 200.0))
    assert isinstance(again, NodeFound)
    assert again.node == "n1"


def test_written_volume_keeps_its_claim_after_a_failure() -> None:
    story = Story(using("c"), *BOTH, claim("e")).written().show(TAKEN)
    story.unreserve()
    assert story.plugin.reserve(Cycle(using("e", name="q"), story.snapshot, 0.0), "n1").code is Code.SUCCESS
    assert [one.metadata.name for one in view(story.snapshot)[0]] == ["w"]
