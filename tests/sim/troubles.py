"""Faults of every kind, each as often as Hypothesis has it."""

from __future__ import annotations

from hypothesis import Phase
from hypothesis import strategies as st

from restow.sim.faults import FaultPlan

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
