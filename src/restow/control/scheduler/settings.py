"""Limits and periods of the scheduler."""

from __future__ import annotations

import msgspec


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds."""

    max_binding_pods: int = 1000
    """Pods that are decided and not yet bound, at most. A pod that is decided later is decided on fresher facts; and
    the more pods are ahead, the longer an important one that comes late has to wait."""
    max_session_pods: int = 250
    """Pods per session: at most, and while more wait, also at least. Pods that are alike cost less together, but no
    Binding is sent during a session."""
    binding_writers: int = 64
    """Bindings, and the writes of PreBind plugins, under way at once: enough to keep the API server busy."""
    status_writers: int = 8
    """Writes of pod and PodGroup statuses under way at once; as many again for reservations."""
    consumption_writers: int = 4
    """Of the latter, those at once that only record consumed seats: one costs as much as several Bindings."""
    consumption_patience: float = 30.0
    """How long consumption writes may be put off by bindings that wait for their turn."""
    event_writers: int = 4
    assumed_pod_check_period: float = 15.0
    """Between two checks of assumed pods that the API has not confirmed."""
    assumed_pod_max_age: float = 30.0
    """How long a pod may be assumed before the API is asked about it."""
    reservation_check_period: float = 1.0
    """Between two checks of reservations for what no event reports, such as their expiry."""
    namespace_share: int = 50
    """How much of the cluster one namespace may hold by reservations, in percent of every resource."""
    pre_bind_timeout: float = 900.0
    """How long the writes of a PreBind plugin may take to take effect, and a Bind plugin to have the pod bound."""
