"""`restow run` as a process of its own, with the rights that `restow install` gives, and what it was refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from e2e.controlplane import ControlPlane

LEASES = "restow-e2e"


@contextmanager
def restow(
    kubeconfig: Path, directory: Path, name: str, configuration: str, *, lease: str = "5s"
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs all components; its log is beside its configuration. A third of the lease's duration is
    how long it waits for any answer."""
    (directory / "restow.yaml").write_text(configuration)
    arguments = ("--kubeconfig", kubeconfig, "--config", directory / "restow.yaml", "--port", "0")
    leases = ("--namespace", LEASES, "--lease-duration", lease)
    with (directory / f"{name}.log").open("wb") as log:
        command = [sys.executable, "-m", "restow", "run", *map(str, arguments), *leases]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def installed(plane: ControlPlane, directory: Path) -> Path:
    """The kubeconfig of the service account that `restow install` makes, with exactly the rights it gives."""

    def kubectl(*arguments: str, given: str | None = None) -> str:
        command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout

    install = ("install", "--kubeconfig", str(plane.kubeconfig), "--namespace", LEASES)
    printed = subprocess.run(
        [sys.executable, "-m", "restow", *install], capture_output=True, text=True, check=True
    ).stdout
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=printed)
    kubectl("scale", "deployment", "restow", "-n", LEASES, "--replicas=0")  # its image does not exist here
    token = kubectl("create", "token", "restow", "-n", LEASES).strip()
    path = directory / "account.kubeconfig"
    document = yaml.safe_load(plane.kubeconfig.read_text())
    document["users"] = [{"name": user["name"], "user": {"token": token}} for user in document["users"]]
    path.write_text(yaml.safe_dump(document))
    return path


def refusals(directory: Path) -> list[str]:
    """What the processes were not allowed to do."""
    lines = [line for log in directory.glob("*.log") for line in log.read_text().splitlines()]
    return [line for line in lines if "forbidden" in line.lower()]
