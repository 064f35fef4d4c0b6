"""The wall clock of the machine, for everything that runs outside the simulated world."""

from __future__ import annotations

import time


class SystemClock:
    """ports.Clock over the operating system's clock."""

    def now(self) -> float:
        return time.time()
