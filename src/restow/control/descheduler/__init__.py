"""The descheduler as a controller: start reading at `descheduler`. `plan_runner` carries out a saved plan."""

from restow.control.descheduler.applied_plan import ApplyProgress
from restow.control.descheduler.descheduler import Descheduler, DeschedulerRun, RunRefused
from restow.control.descheduler.metrics import DeschedulerMetrics
from restow.control.descheduler.plan_runner import AnotherPlanActive, ClusterChanged, PlanRunner
from restow.control.descheduler.settings import ApplyConfiguration, DeschedulerConfiguration, DeschedulerSettings

__all__ = [
    "AnotherPlanActive",
    "ApplyConfiguration",
    "ApplyProgress",
    "ClusterChanged",
    "Descheduler",
    "DeschedulerConfiguration",
    "DeschedulerMetrics",
    "DeschedulerRun",
    "DeschedulerSettings",
    "PlanRunner",
    "RunRefused",
]
