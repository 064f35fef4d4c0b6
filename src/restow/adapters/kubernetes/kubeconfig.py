"""Reading kubeconfig files: from one or several merged files and a context to a ClusterConfig."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from restow.adapters.kubernetes.cluster_config import ClusterConfig, ConfigError, proxy_from_environment
from restow.adapters.kubernetes.credentials import StaticCredentials
from restow.adapters.kubernetes.in_cluster import in_cluster, is_in_cluster
from restow.adapters.kubernetes.kubeconfig_clusters import authority_of, proxy_of, server_of
from restow.adapters.kubernetes.kubeconfig_file import Context, Entry, Merged, files_of, merge_files
from restow.adapters.kubernetes.kubeconfig_users import credentials_of, impersonation_of
from restow.adapters.loopback import is_loopback

T = TypeVar("T")


def find_config(
    path: str | Path | None = None, *, context: str | None = None, env: Mapping[str, str] | None = None
) -> ClusterConfig:
    """The cluster meant: the file named, else $KUBECONFIG, else the cluster we run in, else ~/.kube/config."""
    env = os.environ if env is None else env
    if path is None and not env.get("KUBECONFIG") and context is None and is_in_cluster(env):
        return in_cluster(env)
    return load_kubeconfig(path, context=context, env=env)


def load_kubeconfig(
    path: str | Path | None = None, *, context: str | None = None, env: Mapping[str, str] | None = None
) -> ClusterConfig:
    """The cluster and user of a context (the current one by default). Raises ConfigError."""
    env = os.environ if env is None else env
    merged = merge_files(files_of(path, env))
    chosen = _context(merged, context)
    cluster = _entry_named(chosen, "cluster", chosen.value.cluster, merged.clusters)
    user = _entry_named(chosen, "user", chosen.value.user, merged.users) if chosen.value.user else None
    server = server_of(cluster)
    authority = authority_of(cluster)
    return ClusterConfig(
        server=server,
        credentials=credentials_of(user, cluster, authority, env) if user else StaticCredentials(),
        authority=authority,
        tls_server_name=cluster.value.tls_server_name,
        insecure=cluster.value.insecure_skip_tls_verify,
        proxy=proxy_of(cluster) or proxy_from_environment(server, env),
        impersonation=impersonation_of(user) if user else None,
        namespace=chosen.value.namespace or "default",
        compress=not cluster.value.disable_compression and not is_loopback(urlsplit(server).hostname or ""),
    )


def _context(merged: Merged, name: str | None) -> Entry[Context]:
    files = ", ".join(map(str, merged.files))
    name = name or merged.current_context
    if not name:
        raise ConfigError(f"kubeconfig {files}: current-context: not set, and no context was asked for")
    if name not in merged.contexts:
        known = ", ".join(sorted(merged.contexts)) or "none"
        raise ConfigError(f"kubeconfig {files}: contexts: no context {name!r}; there are: {known}")
    return merged.contexts[name]


def _entry_named(context: Entry[Context], field: str, name: str, entries: Mapping[str, Entry[T]]) -> Entry[T]:
    if name not in entries:
        raise context.error(field, f"no {field} named {name!r}; there are: {', '.join(sorted(entries)) or 'none'}")
    return entries[name]
