"""The scheduler as a running loop. Start reading at `scheduler`."""

from restow.control.scheduler.metrics import SchedulerMetrics
from restow.control.scheduler.scheduler import Scheduler
from restow.control.scheduler.settings import SchedulerSettings

__all__ = ["Scheduler", "SchedulerMetrics", "SchedulerSettings"]
