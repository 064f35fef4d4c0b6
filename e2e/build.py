"""Builds the programs of a real control plane, once, into a cache outside of the work tree.

In: the Go module in `e2e/controlplane`, whose go.mod pins every version. Out: a directory of binaries
(`programs()`), named after a hash of all that decides their content, so that a changed pin builds anew and an
unchanged one never does. A build happens in a directory beside it and is renamed into place when it is whole.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODULE = Path(__file__).parent / "controlplane"

PACKAGES = {
    "keygen": "./keygen",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}


class BuildError(Exception):
    """The control plane cannot be built here; the message is for people."""


def programs() -> Path:
    """The directory that holds the built programs; builds them if they are not there yet."""
    target = _cache() / _fingerprint() / "bin"
    if not target.is_dir():
        _build_into(target)
    return target


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "restow" / "controlplane"


def _fingerprint() -> str:
    """Of everything that decides what the binaries are: pins, our own sources, the compiler, the flags."""
    digest = hashlib.sha256()
    for file in sorted(path for path in MODULE.rglob("*") if path.is_file()):
        digest.update(file.read_bytes())
    digest.update(repr((PACKAGES, _flags(), _go_version())).encode())
    return digest.hexdigest()[:16]


def _go_version() -> str:
    if shutil.which("go") is None:
        raise BuildError("the real control plane is built from source: install Go 1.26 or newer, or put it on PATH")
    return subprocess.run(["go", "version"], check=True, capture_output=True, text=True).stdout.strip()


def _pinned(module: str) -> str:
    match = re.search(rf"^\s*{re.escape(module)} (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise BuildError(f"{MODULE / 'go.mod'} does not require {module}")
    return match[1]


def _flags() -> list[str]:
    """Kubernetes and kwok report the version that their own release builds would stamp into them."""
    kubernetes = _pinned("k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    version = "k8s.io/component-base/version"
    stamps = {
        f"{version}.gitVersion": kubernetes,
        f"{version}.gitMajor": major,
        f"{version}.gitMinor": minor,
        "sigs.k8s.io/kwok/pkg/consts.Version": _pinned("sigs.k8s.io/kwok"),
    }
    return ["-trimpath", "-mod=readonly", "-ldflags", " ".join(["-s -w", *(f"-X {k}={v}" for k, v in stamps.items())])]


def _build_into(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _say(f"building {len(PACKAGES)} programs into {target} (about five minutes on two cores, once)")
    with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as scratch:
        for name, package in PACKAGES.items():
            _compile(name, package, Path(scratch) / "bin")
        try:
            (Path(scratch) / "bin").rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process finished the same build first, which is as good
                raise


def _compile(name: str, package: str, directory: Path) -> None:
    started = time.monotonic()
    command = ["nice", "go", "build", *_flags(), "-o", str(directory / name), package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    _say(f"  {name} ...")
    result = subprocess.run(command, cwd=MODULE, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"go build {package} failed:\n{result.stderr.strip()[-4000:]}")
    _say(f"  {name} built in {time.monotonic() - started:.0f} s")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    try:
        print(programs())
    except BuildError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
