"""Fault plans that Hypothesis draws, and clients of a faulty API server."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import Phase
from hypothesis import strategies as st

from restow.adapters.memory import MemoryApi
from restow.client.verbs import Client
from restow.ports import Api
from restow.sim.faults import FaultPlan, FaultyApi
from restow.sim.loop import VirtualClock

PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""A failing run is found again by its seed; shrinking rates of faults explains nothing."""

rate = st.floats(0, 0.25)
plans = st.builds(
    FaultPlan,
    dropped=rate,
    repeated=rate,
    late=rate,
    stale=rate,
    conflict=rate,
    busy=rate,
    refused=rate,
    unknown=rate,
    slow=rate,
)


def server(seed: int = 1) -> MemoryApi:
    return MemoryApi(VirtualClock(), random.Random(seed))


def faulty(api: Api, **plan: Any) -> tuple[FaultyApi, Client]:
    wrapped = FaultyApi(api, random.Random(7), FaultPlan(**plan))
    return wrapped, Client(wrapped)
