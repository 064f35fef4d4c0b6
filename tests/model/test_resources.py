"""Resource vectors and what pods ask for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.model.objects import Pod
from restow.model.qos import qos_class
from restow.model.resources import (
    Shortage,
    add_vectors,
    format_quantities,
    is_scheduled,
    parse_amounts,
    pod_requests,
    resource_shortages,
    scale_vector,
    scored_requests,
    subtract_vectors,
    template_requests,
    vector_fits,
    vector_maximum,
    vector_minimum,
)

Request = dict[str, Any]
EXTENDED: Request = {"x.io/y": "2"}
GPU: Request = {"x.io/gpu": "1"}
HUGEPAGES: Request = {"hugepages-2Mi": "2Mi"}


def container(name: str = "c", sidecar: bool = False, **requests: Any) -> Request:
    restart = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests}, **restart}


def pod(*containers: Request, init: list[Request] | None = None, status: Request | None = None, **spec: Any) -> Pod:
    document = {"spec": {"containers": list(containers), "initContainers": init, **spec}, "status": status or {}}
    return msgspec.convert(document, Pod)


def resized(*, has: str, allocated: str, reason: str = "") -> Request:
    """A status during an in-place resize of container c."""
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else None
    report = {"name": "c", "resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": allocated}}
    return {"containerStatuses": [report], "conditions": conditions}


@pytest.mark.parametrize(
    ("given_pod", "expected"),
    [
        pytest.param(
            pod(container(cpu="100m"), container(cpu="1", memory="1Gi")), {"cpu": 1100, "memory": 2**30}, id="sum"
        ),
        pytest.param(pod(container()), {}, id="nothing asked for"),
        pytest.param(
            pod(container(cpu="100m"), init=[container(cpu="1"), container(cpu="2")]), {"cpu": 2000}, id="largest init"
        ),
        pytest.param(
            pod(container(cpu="3"), init=[container(cpu="1")]), {"cpu": 3000}, id="init smaller than the containers"
        ),
        pytest.param(
            pod(container(cpu="1"), init=[container(cpu="2", sidecar=True)]),
            {"cpu": 3000},
            id="sidecar adds to the sum",
        ),
        pytest.param(
            pod(container(cpu="1"), init=[container("s", cpu="2", sidecar=True), container("i", cpu="4")]),
            {"cpu": 6000},
            id="init after a sidecar runs beside it",
        ),
        pytest.param(
            pod(container(cpu="1"), init=[container("i", cpu="4"), container("s", cpu="2", sidecar=True)]),
            {"cpu": 4000},
            id="init before a sidecar does not",
        ),
        pytest.param(
            pod(container(cpu="1", memory="1"), init=[container(memory="5")]),
            {"cpu": 1000, "memory": 5},
            id="per resource",
        ),
        pytest.param(
            pod(container(cpu="1", memory="1Gi", **EXTENDED), resources={"requests": {"cpu": "5", "x.io/y": "9"}}),
            {"cpu": 5000, "memory": 2**30, "x.io/y": 2},
            id="pod-level cpu replaces the sum, extended resources do not",
        ),
        pytest.param(
            pod(container(cpu="1"), overhead={"cpu": "250m", "memory": "1Mi"}),
            {"cpu": 1250, "memory": 2**20},
            id="overhead is added last",
        ),
        pytest.param(
            pod(container(cpu="1"), resources={"requests": {"cpu": "2"}}, overhead={"cpu": "1"}),
            {"cpu": 3000},
            id="overhead on top of pod-level requests",
        ),
        pytest.param(
            pod(container("a", cpu="0.5m"), container("b", cpu="0.5m")), {"cpu": 1}, id="rounded once, after summing"
        ),
        pytest.param(pod(container(memory="100m")), {"memory": 1}, id="fractions of a byte round up"),
        pytest.param(pod(container(storage="1Gi", pods="1", cpu="0")), {"cpu": 0}, id="resources without requests"),
        pytest.param(pod(container(cpu="1"), status=resized(has="2", allocated="3")), {"cpu": 3000}, id="shrinking"),
        pytest.param(pod(container(cpu="4"), status=resized(has="2", allocated="3")), {"cpu": 4000}, id="growing"),
        pytest.param(
            pod(container(cpu="4"), status=resized(has="2", allocated="3", reason="Deferred")),
            {"cpu": 4000},
            id="deferred",
        ),
        pytest.param(
            pod(container(cpu="4"), status=resized(has="2", allocated="3", reason="Infeasible")),
            {"cpu": 3000},
            id="infeasible resize is not counted",
        ),
        pytest.param(
            pod(
                container(cpu="1"),
                resources={"requests": {"cpu": "2"}},
                status={"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "4"}},
            ),
            {"cpu": 5000},
            id="pod-level resize",
        ),
        pytest.param(
            pod(
                container("m", cpu="1"),
                init=[container("c", cpu="1")],
                status={"initContainerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]},
            ),
            {"cpu": 1000},
            id="init containers are not resized",
        ),
    ],
)
def test_pod_requests_of_containers_init_steps_and_overhead(given_pod: Pod, expected: dict[str, int]) -> None:
    assert pod_requests(given_pod) == expected


@pytest.mark.parametrize(
    ("given_pod", "expected"),
    [
        pytest.param(pod(container()), {"cpu": 100, "memory": 200 * 2**20}, id="both missing"),
        pytest.param(pod(container(cpu="0")), {"cpu": 0, "memory": 200 * 2**20}, id="an explicit zero stays zero"),
        pytest.param(pod(container(), container()), {"cpu": 200, "memory": 400 * 2**20}, id="per container"),
        pytest.param(
            pod(container(), resources={"requests": {"cpu": "1"}}),
            {"cpu": 1000, "memory": 200 * 2**20},
            id="pod-level cpu is not missing",
        ),
    ],
)
def test_scored_requests_use_defaults_for_missing_requests(given_pod: Pod, expected: dict[str, int]) -> None:
    assert scored_requests(given_pod) == expected


def limited(name: str = "c", *, requests: Request | None = None, sidecar: bool = False, **limits: Any) -> Request:
    """A container as people write it in a template: the API server completes it in pods, and only there."""
    restart = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests, "limits": limits}, **restart}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(pod(limited(cpu="1", memory="1Gi")), {"cpu": 1000, "memory": 2**30}, id="limits alone"),
        pytest.param(
            pod(limited(requests={"cpu": "1"}, cpu="2", memory="1Gi")), {"cpu": 1000, "memory": 2**30}, id="mixed"
        ),
        pytest.param(pod(limited(requests={"cpu": "0"}, cpu="2")), {"cpu": 0}, id="an explicit zero stays zero"),
        pytest.param(pod(container(), init=[limited(cpu="2")]), {"cpu": 2000}, id="init"),
        pytest.param(pod(container(cpu="1"), init=[limited("s", cpu="2", sidecar=True)]), {"cpu": 3000}, id="sidecar"),
        pytest.param(pod(limited(**GPU)), {"x.io/gpu": 1}, id="an extended resource"),
        pytest.param(pod(container(), resources={"limits": {"cpu": "2"}}), {"cpu": 2000}, id="pod-level limits alone"),
        pytest.param(
            pod(container(cpu="1"), container("d", cpu="1"), resources={"limits": {"cpu": "4", "memory": "1Gi"}}),
            {"cpu": 2000, "memory": 2**30},
            id="what containers request stands before a pod-level limit",
        ),
        pytest.param(
            pod(limited(cpu="1"), resources={"limits": {"cpu": "4"}}), {"cpu": 1000}, id="and so do their own limits"
        ),
        pytest.param(
            pod(container(cpu="1"), resources={"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}),
            {"cpu": 3000},
            id="a pod-level request stands before both",
        ),
        pytest.param(
            pod(limited(**HUGEPAGES), resources={"limits": {"hugepages-2Mi": "4Mi"}}),
            {"hugepages-2Mi": 4 * 2**20},
            id="huge pages of a pod are as many as it is limited to",
        ),
        pytest.param(
            pod(container(), resources={"limits": {"x.io/gpu": "1"}}), {}, id="a pod as a whole has no extended ones"
        ),
    ],
)
def test_a_limit_stands_for_a_request_that_is_missing_as_in_pods(written: Pod, expected: dict[str, int]) -> None:
    assert template_requests(written.spec) == expected
    assert pod_requests(written) == expected


def test_defaulted_pod_requests_the_same_during_an_in_place_resize() -> None:
    both = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    for reason, expected in (("", 3000), ("Infeasible", 3000)):
        status = resized(has="2", allocated="3", reason=reason)
        assert pod_requests(pod({"name": "c", "resources": both}, status=status)) == {"cpu": expected}


def test_scoring_misses_nothing_that_is_limited() -> None:
    assert scored_requests(pod(limited(cpu="1"))) == {"cpu": 1000, "memory": 200 * 2**20}
    written = pod(container(), resources={"limits": {"cpu": "1"}})
    assert scored_requests(written) == {"cpu": 1000, "memory": 200 * 2**20}


def test_template_requests_equal_those_of_its_pods() -> None:
    given_pod = pod(container(cpu="1"), overhead={"cpu": "1"})
    assert template_requests(given_pod.spec) == pod_requests(given_pod)


@pytest.mark.parametrize(
    ("name", "scheduled"),
    [
        ("cpu", True),
        ("nvidia.com/gpu", True),
        ("hugepages-1Gi", True),
        ("attachable-volumes-aws-ebs", True),
        ("kubernetes.io/batch-cpu", True),
        ("pods", False),
        ("storage", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_resources_a_scheduler_accounts_for(name: str, scheduled: bool) -> None:
    assert is_scheduled(name) is scheduled


def test_shortages_name_requested_and_free_amounts() -> None:
    short = resource_shortages(
        {"cpu": 1500, "memory": 2**30, "x.io/y": 0, "z": 1}, {"cpu": 1000, "memory": 2**30, "x.io/y": -1}
    )
    assert short == [Shortage("cpu", 1500, 1000), Shortage("z", 1, 0)]
    assert str(short[0]) == "insufficient cpu (requested 1500m, available 1)"


def test_vectors_are_read_and_written() -> None:
    assert parse_amounts({"cpu": "1.5", "memory": "1Gi", "x.io/y": 2}) == {"cpu": 1500, "memory": 2**30, "x.io/y": 2}
    assert format_quantities({"memory": 2**30, "cpu": 1500}) == {"cpu": "1500m", "memory": "1Gi"}
    assert parse_amounts(None) == {}


names = st.sampled_from(["cpu", "memory", "x.io/y"])
vectors = st.dictionaries(names, st.integers(-(2**70), 2**70))
demands = st.dictionaries(names, st.integers(0, 2**40))


def dense(vector: dict[str, int]) -> dict[str, int]:
    """Without zeros, which are the same as absent."""
    return {name: number for name, number in vector.items() if number}


@given(vectors, vectors, vectors)
def test_adding_and_subtracting_vectors_is_a_group(a: dict[str, int], b: dict[str, int], c: dict[str, int]) -> None:
    assert add_vectors(add_vectors(a, b), c) == add_vectors(a, add_vectors(b, c))
    assert add_vectors(a, b) == add_vectors(b, a)
    assert dense(subtract_vectors(add_vectors(a, b), b)) == dense(a)
    assert dense(add_vectors(a, {})) == dense(a)
    assert add_vectors(a, a) == dict(sorted(scale_vector(a, 2).items()))


@given(vectors, vectors)
def test_maximum_and_minimum_share_the_sum(a: dict[str, int], b: dict[str, int]) -> None:
    assert add_vectors(vector_maximum(a, b), vector_minimum(a, b)) == add_vectors(a, b)
    assert vector_maximum(a, b) == vector_maximum(b, a)


@given(demands, demands, demands)
def test_fitting_request_leaves_no_negative_amount(
    request: dict[str, int], more: dict[str, int], room: dict[str, int]
) -> None:
    assert vector_fits(request, room) is (not resource_shortages(request, room))
    assert vector_fits(request, room) is all(number >= 0 for number in subtract_vectors(room, request).values())
    assert vector_fits(request, add_vectors(request, more))
    if vector_fits(add_vectors(request, more), room):
        assert vector_fits(more, subtract_vectors(room, request))


amount_texts = st.sampled_from(["0", "1m", "0.5m", "100m", "1", "2.5"])
containers = st.builds(lambda cpu: container(cpu=cpu), amount_texts)


@given(st.lists(containers, min_size=1, max_size=4), st.lists(containers, max_size=3))
def test_a_pod_never_asks_for_less_than_its_largest_step(run: list[Request], init: list[Request]) -> None:
    total = pod_requests(pod(*run, init=init))
    assert vector_fits(pod_requests(pod(*run)), total)
    assert all(vector_fits(pod_requests(pod(step)), total) for step in init)


def limits(request: Request, **limits: str) -> Request:
    return {**request, "resources": {**request["resources"], "limits": limits}}


@pytest.mark.parametrize(
    ("given_pod", "expected"),
    [
        pytest.param(pod(container()), "BestEffort", id="nothing set"),
        pytest.param(pod(container(cpu="0")), "BestEffort", id="zero counts as nothing"),
        pytest.param(pod(container(cpu="1")), "Burstable", id="request only"),
        pytest.param(pod(limits(container(cpu="1", memory="1"), cpu="1", memory="1")), "Guaranteed", id="limits equal"),
        pytest.param(pod(limits(container(cpu="1", memory="1"), cpu="2", memory="1")), "Burstable", id="limit above"),
        pytest.param(pod(limits(container(cpu="1"), cpu="1")), "Burstable", id="memory missing"),
        pytest.param(
            pod(limits(container(cpu="1", memory="1"), cpu="1", memory="1"), container()), "Burstable", id="one without"
        ),
        pytest.param(
            pod(
                container(), resources={"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}
            ),
            "Guaranteed",
            id="pod-level resources decide alone",
        ),
        pytest.param(pod(container(cpu="1"), resources={}), "BestEffort", id="even empty ones"),
    ],
)
def test_qos_class_of_pod_specs(given_pod: Pod, expected: str) -> None:
    assert qos_class(given_pod.spec) == expected
