"""What several loops know of the cluster, kept in one way: each view names what it wants to hear at a reader."""

from restow.control.view.cluster_view import ClusterView
from restow.control.view.eviction_view import EvictionView
from restow.control.view.stop_switch import StopSwitch

__all__ = ["ClusterView", "EvictionView", "StopSwitch"]
