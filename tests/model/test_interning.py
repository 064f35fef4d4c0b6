"""Sharing parts between decoded objects."""

from __future__ import annotations

import json
from typing import Any

from restow.model.interning import Interner
from restow.model.objects import Node, Pod
from restow.model.wire import decode_object


def pod_json(name: str, **spec: Any) -> bytes:
    template = {
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}],
        "tolerations": [{"operator": "Exists"}],
        **spec,
    }
    labels = {"app": "web"}
    owners = [{"kind": "ReplicaSet", "name": "web", "uid": "u"}]
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t"}]}
    metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": owners}
    return json.dumps({"metadata": metadata, "spec": template, "status": status}).encode()


def shared_pods(*documents: bytes, limit: int = 100) -> list[Pod]:
    interner = Interner(limit)
    return [interner.share(decode_object(Pod, data)) for data in documents]


def test_sharing_changes_nothing_that_can_be_read() -> None:
    data = pod_json("a")
    assert shared_pods(data) == [decode_object(Pod, data)]


def test_equal_parts_become_a_single_object() -> None:
    first, second = shared_pods(pod_json("a"), pod_json("b"))
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.containers is second.spec.containers
    assert first.spec.tolerations is second.spec.tolerations
    assert first.spec.node_name is second.spec.node_name
    assert (first.metadata.name, second.metadata.name) == ("a", "b")


def test_parts_that_look_alike_but_are_of_other_types_stay_apart() -> None:
    (pod,) = shared_pods(pod_json("a", containers=[{"name": "x"}], initContainers=[{"name": "x"}]))
    assert pod.spec.containers is not pod.spec.init_containers


def test_volumes_that_constrain_nothing_are_left_out() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}}
    (pod,) = shared_pods(pod_json("a", volumes=[{"name": "kube-api-access-x7k2p", "projected": {}}, claim]))
    assert [volume.name for volume in pod.spec.volumes or ()] == ["data"]


def test_numbers_beyond_64_bits_are_left_alone() -> None:
    data = pod_json("a", tolerations=[{"tolerationSeconds": 2**70}])
    assert shared_pods(data, data) == [decode_object(Pod, data)] * 2


def test_full_interning_table_starts_again() -> None:
    documents = [pod_json(f"p{number}", nodeName=f"n{number}", nodeSelector={"x": str(number)}) for number in range(20)]
    assert shared_pods(*documents, limit=3) == [decode_object(Pod, data) for data in documents]


def test_other_kinds_share_their_metadata() -> None:
    interner = Interner()
    data = b'{"metadata": {"name": "n", "labels": {"zone": "a"}}}'
    first, second = (interner.share(decode_object(Node, data)) for _ in range(2))
    assert first.metadata.labels is second.metadata.labels
