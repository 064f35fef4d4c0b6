"""A world to run in: virtual time, kubelets and controllers as small rules, faults at the port, generated clusters."""

from restow.sim.faults import Crash, FaultPlan, FaultyApi, run_until_crash
from restow.sim.loop import Deadlock, VirtualClock, VirtualLoop, run_virtual
from restow.sim.world import World

__all__ = [
    "Crash",
    "Deadlock",
    "FaultPlan",
    "FaultyApi",
    "VirtualClock",
    "VirtualLoop",
    "World",
    "run_until_crash",
    "run_virtual",
]
