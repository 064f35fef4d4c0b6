"""Configuration of a process that runs in a pod: its service account, whose token the kubelet rotates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from restow.adapters.kubernetes.cluster_config import ClusterConfig, ConfigError, proxy_from_environment
from restow.adapters.kubernetes.credentials import FileCredentials, read_file

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(env: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> bool:
    return bool(env.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").exists()


def in_cluster(env: Mapping[str, str] | None = None, directory: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """The cluster this process runs in. Raises ConfigError when it does not run in one."""
    env = os.environ if env is None else env
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    credentials = FileCredentials(token=directory / "token")
    credentials.read()
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClusterConfig(
        server=server,
        credentials=credentials,
        authority=read_file(directory / "ca.crt"),
        proxy=proxy_from_environment(server, env),
        namespace=_namespace(directory / "namespace"),
    )


def _namespace(path: Path) -> str:
    try:
        return path.read_text().strip() or "default"
    except OSError:
        return "default"
