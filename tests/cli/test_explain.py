"""`restow explain`: may pods that have a node move, and where to; what keeps those waiting that have none?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from restow.cli import restow
from tests.cli.snapshot_documents import GROUP, OWNER, QUEUE, labelled, node, pod, running_replica

DAEMON = {**OWNER, "kind": "DaemonSet", "name": "agent", "uid": "agent"}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "a"},
    "spec": {"selector": {"matchLabels": {"app": "kept"}}},
    "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
}


ITEMS = [
    node("n1", "10"),
    node("n2", "2"),
    running_replica("small", "1", "n1"),
    running_replica("large", "4", "n1"),
    running_replica("scratch", "1", "n1", volumes=[{"name": "tmp", "emptyDir": {}}], schedulerName="default-scheduler"),
    labelled(running_replica("daemon", "1", "n1"), ownerReferences=[DAEMON]),
    labelled(running_replica("kept", "1", "n1"), labels={"app": "kept"}),
    pod("waits", "1"),
    BUDGET,
]


@pytest.mark.parametrize(
    ("name", "movable", "obstacles", "message"),
    [
        pytest.param("small", True, [], "runs on n1; 1 other node could take it; it may be moved", id="may move"),
        pytest.param("large", False, [], "runs on n1; movable, but no other node fits", id="nowhere to"),
        pytest.param(
            "scratch",
            False,
            [
                "its scheduler is default-scheduler, schedulerNames has restow",
                "it has local storage: tmp (evictLocalStoragePods is false)",
            ],
            "runs on n1; 1 other node could take it; it may not be moved: its scheduler is default-scheduler, "
            "schedulerNames has restow; it has local storage: tmp (evictLocalStoragePods is false)",
            id="for two reasons",
        ),
        pytest.param(
            "daemon", False, ["DaemonSet agent would put it back on the same node"], "it may not be moved", id="daemon"
        ),
        pytest.param(
            "kept",
            False,
            ["PodDisruptionBudget a/web: 1 of 1 desired pods are healthy, 0 may be disrupted"],
            "it may not be moved",
            id="budget",
        ),
        pytest.param("waits", None, [], "; 2 nodes could take it", id="has no node yet"),
    ],
)
def test_explain_says_whether_a_pod_may_move_and_why_not(
    tmp_path: Path, name: str, movable: bool | None, obstacles: list[str], message: str
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    done = CliRunner().invoke(restow, ["explain", "--snapshot", str(path), "-o", "json", "pod", f"a/{name}"])
    result = json.loads(done.stdout)
    assert (result["movable"], result["obstacles"]) == (movable, obstacles)
    assert message in result["message"]


@pytest.mark.parametrize(
    ("least", "obstacles"),
    [
        pytest.param(2, [], id="all there"),
        pytest.param(3, ["pod group a/ring needs 3 pods, 2 exist: its successor would not be scheduled"], id="not"),
        pytest.param(None, ["pod group a/ring does not exist: its successor would not be scheduled"], id="not known"),
    ],
)
def test_explain_pod_of_a_gang_is_movable_if_the_gang_is(
    tmp_path: Path, least: int | None, obstacles: list[str]
) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "ring", "namespace": "a"},
        "spec": {"minMember": least},
    }
    pods = [labelled(running_replica(name, "1", "n1"), annotations={GROUP: "ring"}) for name in ("one", "two")]
    path = tmp_path / "cluster.json"
    items = [*ITEMS, *pods, *([group] if least else [])]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    found = _asked("explain", "--snapshot", str(path), "-o", "json", "pod", "a/one")
    assert (found["movable"], found["obstacles"]) == (not obstacles, obstacles)


def test_explain_follows_the_migration_section(tmp_path: Path) -> None:
    path, config = tmp_path / "cluster.json", tmp_path / "restow.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    config.write_text("migration: {namespaces: {exclude: [a]}}")
    asked = ["explain", "--snapshot", str(path), "--config", str(config), "pod", "a/small"]
    assert "it may not be moved: namespace a is excluded" in " ".join(CliRunner().invoke(restow, asked).stdout.split())


@pytest.mark.parametrize("kind", ["ReplicationController", "ReplicaSet"])
def test_explain_counts_replicas_as_their_owner_says(tmp_path: Path, kind: str) -> None:
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    reference = {"apiVersion": version, "kind": kind, "name": "old", "uid": "old", "controller": True}
    owner = {"apiVersion": version, "kind": kind, "metadata": {"name": "old", "namespace": "a", "uid": "old"}}
    items = [
        *ITEMS,
        labelled(running_replica("one", "1", "n1"), ownerReferences=[reference]),
        {**owner, "spec": {"replicas": 2}},
    ]
    path, config = tmp_path / "cluster.json", tmp_path / "restow.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    config.write_text("migration: {minReplicas: 2}")
    asked = ("explain", "--snapshot", str(path), "--config", str(config), "-o", "json", "pod", "a/one")
    assert _asked(*asked)["obstacles"] == []


def queue(name: str, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"capability": {"cpu": "1"}},
        "status": status,
    }


def group(name: str, least: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"minMember": least},
    }


@pytest.mark.parametrize(
    ("mark", "others", "message"),
    [
        pytest.param({QUEUE: "q"}, [], "queue q does not exist", id="a missing queue"),
        pytest.param({QUEUE: "q"}, [queue("q", state="Closed")], "queue q is Closed", id="a closed queue"),
        pytest.param(
            {QUEUE: "q"},
            [queue("q", state="Open")],
            "queue q would exceed its capability: cpu (limit 1, used 0, requested 2)",
            id="a queue that has had enough",
        ),
        pytest.param({GROUP: "g"}, [], "pod group a/g does not exist", id="a missing gang"),
        pytest.param({GROUP: "g"}, [group("g", 3)], "pod group a/g needs 3 pods, 1 exist", id="a gang not whole"),
        pytest.param(
            {GROUP: "g"},
            [group("g", 2), labelled(pod("other", "9"), annotations={GROUP: "g"})],
            "1 of the 2 pods that pod group a/g needs fit; 0/1 nodes are available: 1 Insufficient cpu.",
            id="a gang that does not fit",
        ),
        pytest.param({}, [pod("a-first", "3")], "", id="a pod that comes first"),
    ],
)
def test_explain_says_why_a_pod_waits_that_a_node_could_take(
    tmp_path: Path, mark: dict[str, str], others: list[dict[str, Any]], message: str
) -> None:
    waiting = labelled(pod("waiting", "2"), annotations=mark)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1", "4"), waiting, *others]}))
    told = _asked("explain", "--snapshot", str(path), "-o", "json", "pod", "a/waiting")["message"]
    refusals = _asked("schedule", "--snapshot", str(path), "-o", "json")["unschedulable"]
    [same] = [one["message"] for one in refusals if one["pod"] == "waiting"]
    assert told == f"is pending; {same}; alone, 1 node could take it"
    assert message in told


def reservation(name: str, node: str) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "namespace": "a", "uid": name},
        "spec": {"tasks": [{"name": "t", "replicas": 1, "template": template}]},
        "status": {"state": {"phase": "Available"}, "placements": [{"task": "t", "index": 0, "nodeName": node}]},
    }


def test_explain_names_nodes_that_only_reservations_keep_a_pod_from(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    held = [reservation("first", "n1"), reservation("second", "n2"), running_replica("large", "1", "n2")]
    items = [node("n1", "4"), node("n2", "3"), node("n3", "1"), pod("waiting", "3"), *held]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    asked = ("explain", "--snapshot", str(path), "pod", "a/waiting")
    assert _asked(*asked, "-o", "json")["held"] == [{"node": "n1", "reservations": ["a/first"]}]
    told = CliRunner().invoke(restow, asked).stdout
    assert "blocked only by reservations: n1 (a/first)" in told


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        pytest.param("Available", "it would go to n1, in a seat of reservation first", id="which it may use"),
        pytest.param(
            "Pending",
            "reservation a/first is not available: it is Pending; without asking for it by name, 1 node could take it",
            id="which it may not use",
        ),
    ],
)
def test_explain_pod_that_names_a_reservation_goes_nowhere_else(tmp_path: Path, phase: str, message: str) -> None:
    path = tmp_path / "cluster.json"
    named = reservation("first", "n1")
    named["spec"] |= {"matchPolicy": "Fits", "owners": [{"labelSelector": {}}], "schedulerName": "restow"}
    if phase == "Pending":
        named["status"] = {"state": {"phase": phase}}
    waiting = labelled(pod("waiting", "3"), annotations={"restow.sh/use-reservation": "first"})
    items = [node("n1", "3" if phase == "Available" else "2"), node("n2", "4"), waiting, named]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    told = _asked("explain", "--snapshot", str(path), "-o", "json", "pod", "a/waiting")
    assert (told["message"], told["feasible"]) == (f"is pending; {message}", [])


@pytest.mark.parametrize(
    ("room", "where"),
    [
        pytest.param("4", "it would go to n2; 1 node could take it", id="that has another place"),
        pytest.param("1", "0/2 nodes are available: 2 Insufficient cpu", id="that has none"),
    ],
)
def test_explain_tells_an_owners_pod_why_no_seat_is_for_it(tmp_path: Path, room: str, where: str) -> None:
    path = tmp_path / "cluster.json"
    held = reservation("first", "n1")
    held["spec"] |= {"owners": [{"labelSelector": {}}], "schedulerName": "restow"}
    items = [node("n1", "3"), node("n2", room), pod("waiting", "3"), held]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    told = _asked("explain", "--snapshot", str(path), "-o", "json", "pod", "a/waiting")
    why = "ReservationSpecNotMatch: reservation a/first does not match pod a/waiting: it differs from task t in "
    assert told["message"].startswith(f"is pending; {where}; {why}containers (")


def test_explain_other_nodes_exclude_the_pods_own_node(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    told = CliRunner().invoke(restow, ["explain", "--snapshot", str(path), "pod", "a/small"]).stdout
    assert "feasible nodes: n2" in told


def _asked(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(restow, arguments).stdout)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({}, "is pending; it would go to n1; 1 node could take it", id="nothing"),
        pytest.param({"schedulingGates": [{"name": "example.com/later"}]}, "example.com/later", id="a gate"),
        pytest.param({"schedulerName": "other"}, "; it belongs to the scheduler 'other'", id="another scheduler"),
    ],
)
def test_explain_pending_pod_says_what_it_waits_for(tmp_path: Path, spec: dict[str, Any], message: str) -> None:
    path = tmp_path / "cluster.json"
    items = [node("n1", "4"), pod("waiting", "2", **spec)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert message in _asked("explain", "--snapshot", str(path), "-o", "json", "pod", "a/waiting")["message"]


@pytest.mark.parametrize(
    "words", [["pod", "a/small"], ["a/small"], ["pods", "a/small"]], ids=["pod NS/NAME", "NS/NAME", "pods NS/NAME"]
)
def test_explain_accepts_pod_names_written_as(tmp_path: Path, words: list[str]) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": ITEMS}))
    assert _asked("explain", "--snapshot", str(path), "-o", "json", *words)["pod"] == "small"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param(
            "a/web", "pod a/web not found; similar pods: a/web-1, a/web-2, b/web and 1 more", id="its workload"
        ),
        pytest.param("web-1", "pod default/web-1 not found; similar pods: a/web-1", id="another namespace"),
        pytest.param("a/nothing", "pod a/nothing not found", id="nothing alike"),
    ],
)
def test_explain_unknown_pod_suggests_similar_names(tmp_path: Path, name: str, told: str) -> None:
    path, there = tmp_path / "cluster.json", ("a/web-1", "a/web-2", "b/web", "b/web-3")
    items = [labelled(pod(one[2:], "1"), name=one[2:], namespace=one[0]) for one in there]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1", "9"), *items]}))
    done = CliRunner().invoke(restow, ["explain", "--snapshot", str(path), name])
    assert (done.exit_code, done.stderr.strip().splitlines()[-1]) == (2, f"Error: {told}")
