"""Host ports: any sequence of pods that come, go and are undone, compared with a look at every occupant."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.model.objects import Container, ContainerPort, ObjectMeta, Pod, PodSpec
from restow.model.snapshot import Snapshot
from tests.narrowing import present

NODES = ["a", "b", "c"]
PORTS = st.lists(
    st.builds(
        ContainerPort,
        host_port=st.sampled_from([80, 81]),
        protocol=st.sampled_from([None, "TCP", "UDP"]),
        host_ip=st.sampled_from([None, "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
    ),
    max_size=3,
)
STEP = st.tuples(st.sampled_from(["bind", "delete", "try"]), st.integers(0, 3), st.sampled_from(NODES), PORTS)


def listening(number: int, ports: list[ContainerPort], node: str | None = None) -> Pod:
    spec = PodSpec(containers=[Container(ports=ports)], node_name=node)
    return Pod(metadata=ObjectMeta(name=f"p{number}", uid=f"u{number}"), spec=spec)


def is_vacant(snapshot: Snapshot, node: str, wanted: list[ContainerPort]) -> bool:
    held = [port for one in snapshot.occupants(node) for port in present(one.pod.spec.containers)[0].ports or ()]
    return not any(_collide(one, other) for one in held for other in wanted)


def _collide(one: ContainerPort, other: ContainerPort) -> bool:
    addresses = {one.host_ip or "0.0.0.0", other.host_ip or "0.0.0.0"}
    same = (one.host_port, one.protocol or "TCP") == (other.host_port, other.protocol or "TCP")
    return same and (len(addresses) == 1 or "0.0.0.0" in addresses)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEP, max_size=12), PORTS)
def test_host_ports_are_free_where_no_occupant_uses_them(
    steps: list[tuple[str, int, str, list[ContainerPort]]], wanted: list[ContainerPort]
) -> None:
    snapshot = Snapshot()
    bound: dict[int, Pod] = {}
    for what, number, node, ports in steps:
        if what == "bind":
            bound[number] = listening(number, ports, bound[number].spec.node_name if number in bound else node)
            snapshot.apply_pod(bound[number])
        elif what == "delete" and number in bound:
            snapshot.remove_pod(bound.pop(number))
        elif what == "try":
            mark = snapshot.mark()
            snapshot.apply_pod(listening(9, ports, node))
            snapshot.undo_to(mark)
    asked = snapshot.shapes.of(listening(8, wanted)).fields.ports
    names = [snapshot.rows.name(row) for row in range(snapshot.rows.size)]
    expected = [name is None or is_vacant(snapshot, name, wanted) for name in names]
    assert snapshot.ports.rows_with_free_ports(asked, snapshot.rows.every).tolist() == expected
    assert snapshot.ports.rows_with_free_ports(asked, np.arange(len(names))).tolist() == expected
