"""A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok.

In: the programs of `e2e.build`. Out: a running cluster without nodes, an admin kubeconfig and one of a user without any
rights. Ports are ephemeral, certificates and keys are made on the spot, everything lives in one temporary directory.
Nodes annotated `kwok.x-k8s.io/node: fake` and the pods bound to them are brought to life by kwok.

    python -m e2e.controlplane        prints the path of the kubeconfig and runs until interrupted
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.build import BuildError, programs
from e2e.process import Process, ProcessDied

READY_SECONDS = 60.0
POLL_SECONDS = 0.1
STAGES = Path(__file__).parent / "stages.yaml"
FAKE_NODE = {"kwok.x-k8s.io/node": "fake"}
CLIENT_QPS = 5000  # the API server is the limit, not its clients
COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kwok")


class ControlPlane:
    """Start with `with ControlPlane() as plane:`; `plane.kubeconfig` is then ready for use.

    Components that are not listed are in `processes`, too, so that a test can start them later.
    """

    def __init__(self, components: Collection[str] = COMPONENTS) -> None:
        self._components = components
        self._bin = programs()
        self.directory = Path(tempfile.mkdtemp(prefix="restow-controlplane-"))
        self.kubeconfig = self.directory / "kubeconfig"
        self.etcd_address = self.directory / "etcd.url"  # the conformance suite compacts through it
        self.limited_kubeconfig = self.directory / "limited.kubeconfig"
        self.kubectl = self._bin / "kubectl"
        ports = _free_ports(6)
        self._etcd_url, self._etcd_peer_url = (f"http://127.0.0.1:{port}" for port in ports[:2])
        self.url = f"https://127.0.0.1:{ports[2]}"
        self._health_urls = {
            "kube-controller-manager": f"https://127.0.0.1:{ports[3]}/healthz",
            "kube-scheduler": f"https://127.0.0.1:{ports[4]}/healthz",
            "kwok": f"http://127.0.0.1:{ports[5]}/healthz",
        }
        self._tokens = {"admin": secrets.token_hex(16), "limited": secrets.token_hex(16)}
        self._key = self.directory / "service-account.key"
        self.processes = {argv[0]: self._process(*argv) for argv in self._commands(ports)}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        subprocess.run([self._bin / "keygen", self._key], check=True)
        tokens = f'{self._tokens["admin"]},admin,admin,"system:masters"\n{self._tokens["limited"]},limited,limited,\n'
        (self.directory / "tokens.csv").write_text(tokens)
        for user, path in (("admin", self.kubeconfig), ("limited", self.limited_kubeconfig)):
            path.write_text(json.dumps(self._kubeconfig_of(user), indent=2))
        self.etcd_address.write_text(self._etcd_url)
        self.processes["etcd"].start()
        self.processes["kube-apiserver"].start()
        self._wait_for({"kube-apiserver": f"{self.url}/readyz"})
        for name in self._components:
            self.processes[name].start()
        self._wait_for({name: self._health_urls[name] for name in self._components})

    def stop(self) -> None:
        """End every process, clients before servers, and remove the directory."""
        for names in (list(self._health_urls), ["kube-apiserver"], ["etcd"]):
            for name in names:
                self.processes[name].signal(signal.SIGTERM)
            for name in names:
                self.processes[name].wait(5)
        shutil.rmtree(self.directory, ignore_errors=True)

    def check(self) -> None:
        """Raise ProcessDied if any part of the control plane ended by itself."""
        for name in ("etcd", "kube-apiserver", *self._components):
            self.processes[name].check()

    async def restart_api_server(self, *, down_seconds: float = 0.5) -> None:
        """Kill the API server as a crash would, leave it down for a moment, and bring it back on the same address.

        Its watch cache starts empty, so versions from before can no longer be watched from.
        """
        server = self.processes["kube-apiserver"]
        server.signal(signal.SIGKILL)
        server.wait(1)
        await asyncio.sleep(down_seconds)
        server.start()
        deadline = time.monotonic() + READY_SECONDS
        while not await asyncio.to_thread(self._healthy, f"{self.url}/readyz"):
            server.check()
            self._give_up_after(deadline, "kube-apiserver")
            await asyncio.sleep(POLL_SECONDS)

    def _process(self, program: str, *arguments: str) -> Process:
        return Process([str(self._bin / program), *arguments], self.directory / f"{program}.log")

    def _commands(self, ports: list[int]) -> list[list[str]]:
        client = [f"--kubeconfig={self.kubeconfig}"]
        serving = [f"--cert-dir={self.directory / 'certificates'}", "--bind-address=127.0.0.1", "--profiling=false"]
        component = [
            *client,
            *serving,
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--kube-api-qps={CLIENT_QPS}",
            f"--kube-api-burst={CLIENT_QPS}",
        ]
        return [
            [
                "etcd",
                f"--data-dir={self.directory / 'etcd'}",
                f"--listen-client-urls={self._etcd_url}",
                f"--advertise-client-urls={self._etcd_url}",
                f"--listen-peer-urls={self._etcd_peer_url}",
                f"--initial-advertise-peer-urls={self._etcd_peer_url}",
                f"--initial-cluster=default={self._etcd_peer_url}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            [
                "kube-apiserver",
                f"--etcd-servers={self._etcd_url}",
                f"--secure-port={ports[2]}",
                *serving,
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                f"--token-auth-file={self.directory / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={self._key}",
                f"--service-account-signing-key-file={self._key}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--allow-privileged=true",
                # Pods of tests have no use for tokens, and need not wait for the service account to appear.
                "--disable-admission-plugins=ServiceAccount",
                "--max-requests-inflight=2000",
                "--max-mutating-requests-inflight=1000",
            ],
            [
                "kube-controller-manager",
                f"--secure-port={ports[3]}",
                *component,
                f"--service-account-private-key-file={self._key}",
                "--allocate-node-cidrs=false",
                # On a busy machine kwok renews the leases of many nodes late; that must not look like nodes failing.
                "--node-monitor-grace-period=300s",
            ],
            ["kube-scheduler", f"--secure-port={ports[4]}", *component],
            [
                "kwok",
                *client,
                f"--config={STAGES}",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                f"--server-address=127.0.0.1:{ports[5]}",
                "--node-lease-duration-seconds=120",
            ],
        ]

    def _kubeconfig_of(self, user: str) -> dict[str, Any]:
        cluster = {"server": self.url, "certificate-authority": str(self.directory / "certificates" / "apiserver.crt")}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
            "current-context": "e2e",
        }

    def _wait_for(self, urls: dict[str, str]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        for name, url in urls.items():
            while not self._healthy(url):
                self.processes["etcd"].check()
                self.processes[name].check()
                self._give_up_after(deadline, name)
                time.sleep(POLL_SECONDS)

    def _give_up_after(self, deadline: float, name: str) -> None:
        if time.monotonic() > deadline:
            raise ProcessDied(f"{name} is not ready after {READY_SECONDS:.0f} s:\n{self.processes[name].tail()}")

    def _healthy(self, url: str) -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2, context=_UNVERIFIED) as response:
                return bool(response.status == 200)
        except OSError:
            return False


def _unverified() -> ssl.SSLContext:
    """For health checks alone: the certificate may not have been written yet."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_UNVERIFIED = _unverified()


def _free_ports(count: int) -> list[int]:
    """Distinct free ports: all are held open until the last is known."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(held.getsockname()[1]) for held in sockets]
    for held in sockets:
        held.close()
    return ports


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started it with interrupts ignored
        signal.signal(number, signal.default_int_handler)
    try:
        with ControlPlane() as plane:
            print(plane.kubeconfig, flush=True)
            while True:
                plane.check()
                time.sleep(1)
    except KeyboardInterrupt:
        return 0
    except (BuildError, ProcessDied) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
