"""The stop switch: one key of one ConfigMap, read before every eviction.

    kubectl -n restow-system create configmap restow-stop --from-literal=paused=true

Without the ConfigMap or the key, or with the value false, evictions are allowed. Any other value stops them, so that a
typing mistake stops too much rather than too little. The key `reason` beside it is shown to people.
"""

from __future__ import annotations

from restow.model.objects import ConfigMap

STOP_NAME = "restow-stop"
STOP_KEY = "paused"
REASON_KEY = "reason"
RESUME_HINT = "run restow resume to continue"


def stop_reason(switch: ConfigMap | None) -> str | None:
    """Why evictions are stopped; None if they are not."""
    data = (switch.data if switch else None) or {}
    if data.get(STOP_KEY, "false").strip().lower() in ("false", ""):
        return None
    why = data.get(REASON_KEY, "").strip()
    return f"evictions are stopped{': ' if why else ''}{why}; {RESUME_HINT}"
