"""Time that passes steadily, which waiting is measured with: the wall clock may be put back, and nobody should have to
wait until it has caught up."""

from __future__ import annotations

import asyncio


def monotonic_time() -> float:
    """Seconds since some moment; only differences mean something."""
    return asyncio.get_running_loop().time()
