"""What several controllers know of the live cluster, each part kept in one way."""

from restow.control.view.cluster_view import ClusterView
from restow.control.view.eviction_view import EvictionView
from restow.control.view.stop_switch import StopSwitch

__all__ = ["ClusterView", "EvictionView", "StopSwitch"]
