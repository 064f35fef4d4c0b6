"""How the world behaves: how long things take. Annotations on a pod or node overrule it for that one."""

from __future__ import annotations

import msgspec

# On pods: seconds until it runs, until it is ready after that, until its containers exit, until it has stopped; the
# exit code; and "true" to keep it from ever becoming ready.
START = "sim.restow.sh/start-seconds"
READY = "sim.restow.sh/ready-seconds"
RUN = "sim.restow.sh/run-seconds"
STOP = "sim.restow.sh/stop-seconds"
EXIT_CODE = "sim.restow.sh/exit-code"
NEVER_READY = "sim.restow.sh/never-ready"
# On nodes: the time since when its kubelet has been silent.
SILENT_SINCE = "sim.restow.sh/silent-since"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds."""

    start: float = 1.0  # from binding to Running
    ready: float = 0.0  # from Running to Ready
    stop: float = 2.0  # at most, from deletion to gone; never longer than the pod's own grace period
    heartbeat: float | None = None  # between renewals of each node's Lease; None: nodes send none
    node_notice: float = 40.0  # from a kubelet's silence to its node being marked
    orphan_notice: float = 40.0  # from a node's disappearance to its pods being removed
    provision: float = 0.0  # to make a volume
    protect_volumes: bool = False  # whether claims and volumes in use are let go of only when they are not
    workers: int = 8  # steps under way at once
