"""The scheduler as a running loop. Start reading at `scheduler`."""

from restow.control.scheduler.metrics import Metrics
from restow.control.scheduler.scheduler import Scheduler
from restow.control.scheduler.settings import Settings

__all__ = ["Metrics", "Scheduler", "Settings"]
