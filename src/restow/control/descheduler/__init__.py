"""The descheduler as a running loop. Start reading at `descheduler`; `applying` carries out a plan that was saved."""

from restow.control.descheduler.descheduler import Descheduler, DeschedulerRun, RunRefused
from restow.control.descheduler.metrics import DeschedulerMetrics
from restow.control.descheduler.plan_executor import AnotherPlanActive, ClusterChanged, PlanExecutor, ApplyProgress
from restow.control.descheduler.settings import DeschedulerSettings

__all__ = [
    "AnotherPlanActive",
    "ClusterChanged",
    "Descheduler",
    "DeschedulerMetrics",
    "DeschedulerRun",
    "DeschedulerSettings",
    "PlanExecutor",
    "ApplyProgress",
    "RunRefused",
]
