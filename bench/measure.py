"""Measuring in a process of its own: CPU seconds and memory growth of one function, unmixed with its peers'.

A subject is a function of this package named "module:function", with arguments if it takes some
("module:function:5000"), that prepares its input, then returns the function to measure. `measured` runs it in a fresh
interpreter; `python -m bench.measure module:function` is that interpreter.
"""

from __future__ import annotations

import importlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec


class Cost(msgspec.Struct, frozen=True):
    """What one run cost: CPU and wall seconds, and how much the process grew, in MB; `value` is what it returned."""

    cpu: float
    wall: float
    grown_mb: float
    value: Any = None


def measured(subject: str, *, runs: int = 1) -> Cost:
    """The cheapest of `runs` runs of a subject, each in a fresh interpreter."""
    return measured_in_turns([subject], turns=runs)[subject]


def measured_in_turns(subjects: Sequence[str], *, turns: int) -> dict[str, Cost]:
    """The cheapest run of each subject. No subject runs a second time before all have run once, so that minutes in
    which the machine is slow affect all; the longer the list, the further apart are the runs of one subject."""
    costs: dict[str, list[Cost]] = {subject: [] for subject in subjects}
    for _ in range(turns):
        for subject in subjects:
            costs[subject].append(_in_fresh_interpreter(subject))
    return {subject: min(each, key=lambda cost: cost.cpu) for subject, each in costs.items()}


def _in_fresh_interpreter(subject: str) -> Cost:
    done = subprocess.run([sys.executable, "-m", "bench.measure", subject], check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Cost)


def resident_mb() -> float:
    """Memory this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def measure(work: Callable[[], Any]) -> Cost:
    """Run once, here, and measure the cost."""
    before, cpu, wall = resident_mb(), time.process_time(), time.perf_counter()
    value = work()
    cost = Cost(time.process_time() - cpu, time.perf_counter() - wall, resident_mb() - before)
    return msgspec.structs.replace(cost, value=value if isinstance(value, int | float | dict) else None)


def main() -> None:
    module, function, *arguments = sys.argv[1].split(":")
    prepare: Callable[..., Callable[[], Any]] = getattr(importlib.import_module(module), function)
    sys.stdout.write(msgspec.json.encode(measure(prepare(*arguments))).decode() + "\n")


if __name__ == "__main__":
    main()
