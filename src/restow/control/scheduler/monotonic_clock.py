"""The monotonic clock: what waiting is measured with. The wall clock may be put back, and a wait must not grow by
that."""

from __future__ import annotations

import asyncio


def monotonic_time() -> float:
    """Seconds since an arbitrary moment; only differences mean something."""
    return asyncio.get_running_loop().time()
