"""What several loops know of the cluster, kept in one way: each view names what it wants to hear at a reader."""

from restow.control.view.cluster import ClusterView
from restow.control.view.evictions import EvictionView
from restow.control.view.switch import StopSwitch

__all__ = ["ClusterView", "EvictionView", "StopSwitch"]
