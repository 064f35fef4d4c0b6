"""A real cluster over HTTP: how to find it (kubeconfig, in-cluster), who we are there, and `KubernetesApi` itself."""

from restow.adapters.kubernetes.config import ClusterConfig, ConfigError
from restow.adapters.kubernetes.in_cluster import in_cluster
from restow.adapters.kubernetes.kubeconfig import find_config, load_kubeconfig
from restow.adapters.kubernetes.transport import KubernetesApi, Limits

__all__ = ["ClusterConfig", "ConfigError", "KubernetesApi", "Limits", "find_config", "in_cluster", "load_kubeconfig"]
