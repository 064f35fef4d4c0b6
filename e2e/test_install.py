"""What `restow install` prints, on a cluster of its own: applied, applied anew with more, and taken away wholly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane import ControlPlane

KINDS = (
    "namespaces,customresourcedefinitions,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,configmaps,"
    "deployments,leases,validatingadmissionpolicies,validatingadmissionpolicybindings"
)
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"weight": 1},
}
MINE = ("-A", "-l", "app.kubernetes.io/part-of=restow", "-o", "name")
UPGRADE = ("apply", "--server-side", "--force-conflicts", "-f", "-")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane(("kube-controller-manager",)) as plane:
        yield plane


def restow(plane: ControlPlane, *arguments: str) -> str:
    command = [sys.executable, "-m", "restow", *arguments, "--kubeconfig", str(plane.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def kubectl(plane: ControlPlane, *arguments: str, given: str | None = None) -> str:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def configuration(plane: ControlPlane) -> str:
    config_map: dict[str, Any] = json.loads(kubectl(plane, "get", "cm", "restow", "-n", "restow-system", "-o", "json"))
    return str(config_map["data"]["restow.yaml"])


@pytest.mark.full
@pytest.mark.parametrize("way", [("apply", "-f", "-"), UPGRADE], ids=["by kubectl", "by the server"])
def test_install_upgrade_and_uninstall(cluster: ControlPlane, tmp_path: Path, way: tuple[str, ...]) -> None:
    wanted = tmp_path / "restow.yaml"
    wanted.write_text("queues: {maxGuaranteed: 30}\n")
    kubectl(cluster, *way, given=restow(cluster, "install"))
    before = kubectl(cluster, "get", KINDS, *MINE)
    kubectl(cluster, *UPGRADE, given=restow(cluster, "install", "--config", str(wanted)))
    kubectl(cluster, *UPGRADE, given=restow(cluster, "install", "--image", "registry.example/restow:2"))
    assert configuration(cluster) == wanted.read_text()
    assert kubectl(cluster, "get", KINDS, *MINE) == before
    kubectl(cluster, "create", "-f", "-", given=json.dumps(QUEUE))
    restow(cluster, "pause")
    kubectl(cluster, "delete", "--ignore-not-found", "--timeout=60s", "-f", "-", given=restow(cluster, "install"))
    assert kubectl(cluster, "get", KINDS, *MINE) == ""
    assert "restow" not in kubectl(cluster, "get", KINDS, "-A", "-o", "name")
