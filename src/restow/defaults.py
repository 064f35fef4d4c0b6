"""Default names that several packages must agree on."""

from __future__ import annotations

from typing import Final

HOME: Final = "restow-system"
"""The namespace of Restow: its Leases, its stop switch, its configuration."""
NAME: Final = "restow"
"""The name of the installed objects; the ConfigMap of that name is the configuration."""
PORT: Final = 10290
"""The port of /healthz, /readyz and /metrics."""
