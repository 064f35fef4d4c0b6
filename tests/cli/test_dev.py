"""`restow dev`: the output and behaviour that scripts rely on."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run, Start


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def post(url: str, document: dict[str, Any]) -> Any:
    body = json.dumps(document).encode()
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def server_of(child: subprocess.Popen[str]) -> tuple[Path, str]:
    assert child.stdout is not None
    path = Path(child.stdout.readline().rstrip("\n"))
    return path, yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]


def test_first_line_is_a_kubeconfig_of_a_cluster_with_ready_nodes_and_our_kinds(start: Start) -> None:
    with start("dev", "--port", "0", "--nodes", "2") as child:
        path, url = server_of(child)
        assert path.is_absolute() and path.name == "kubeconfig" and " " not in str(path)
        nodes = fetch(f"{url}/api/v1/nodes")["items"]
        for kinds in ("batch.volcano.sh/v1alpha1/reservations", "scheduling.koordinator.sh/v1alpha1/podmigrationjobs"):
            assert fetch(f"{url}/apis/{kinds}")["items"] == []
    assert [node["status"]["allocatable"] for node in nodes] == [{"cpu": "8", "memory": "32Gi", "pods": "110"}] * 2
    for node in nodes:
        assert {"type": "Ready", "status": "True"}.items() <= _condition(node, "Ready").items()


def test_pod_becomes_ready_and_is_gone_after_deletion(start: Start) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one"},
        "spec": {"containers": [{"name": "main", "image": "example.com/one:1"}]},
    }
    with start("dev", "--port", "0") as child:
        _, url = server_of(child)
        pods = f"{url}/api/v1/namespaces/default/pods"
        post(pods, pod)
        assert _within(5.0, lambda: _is_ready(fetch(f"{pods}/one")))
        delete = urllib.request.Request(f"{pods}/one", method="DELETE")
        urllib.request.urlopen(delete, timeout=10).close()
        assert _within(5.0, lambda: fetch(pods)["items"] == [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signal_stops_it_and_removes_the_kubeconfig(start: Start, number: signal.Signals) -> None:
    with start("dev", "--port", "0", "--nodes", "0") as child:
        path, _ = server_of(child)
        child.send_signal(number)
        assert child.wait(timeout=20) == 0
        assert child.stderr is not None
        assert child.stderr.read().endswith(f"restow: stopped by {number.name}; the cluster is deleted\n")
    assert not path.parent.exists()


def test_port_in_use_is_one_line_and_exit_code_1(spawn: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = spawn("dev", "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    message = f"cannot listen on 127.0.0.1:{port}: Address already in use; use --port to choose another"
    assert done.stderr == f"restow: {message}\n"


def _condition(document: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = document["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def _is_ready(pod: dict[str, Any]) -> bool:
    return _condition(pod, "Ready").get("status") == "True"


def _within(seconds: float, condition: Any) -> bool:
    """Poll with patience for a busy machine; test_embedded_cluster checks the promised seconds in the settings."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False
