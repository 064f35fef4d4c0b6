"""What goes without saying wherever Restow runs, in one place because several parts must agree."""

from __future__ import annotations

from typing import Final

HOME: Final = "restow-system"
"""The namespace of Restow itself: its Leases, its stop switch."""
NAME: Final = "restow"
"""What is installed there is called so; the ConfigMap of that name is the configuration."""
PORT: Final = 10290
"""Where /healthz, /readyz and /metrics are."""
