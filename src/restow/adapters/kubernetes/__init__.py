"""A real cluster over HTTP: its address and our credentials (kubeconfig, in-cluster), and `KubernetesApi` itself."""

from restow.adapters.kubernetes.cluster_config import ClusterConfig, ConfigError
from restow.adapters.kubernetes.in_cluster import in_cluster
from restow.adapters.kubernetes.kubeconfig import find_config, load_kubeconfig
from restow.adapters.kubernetes.transport import KubernetesApi, TransportLimits

__all__ = [
    "ClusterConfig",
    "ConfigError",
    "KubernetesApi",
    "TransportLimits",
    "find_config",
    "in_cluster",
    "load_kubeconfig",
]
