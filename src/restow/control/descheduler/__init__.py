"""The descheduler as a running loop. Start reading at `descheduler`; `applying` carries out a plan that was saved."""

from restow.control.descheduler.applying import Applying, Changed, InTheWay, Progress
from restow.control.descheduler.descheduler import Descheduler, Run, RunRefused
from restow.control.descheduler.metrics import Metrics
from restow.control.descheduler.settings import Settings

__all__ = [
    "Applying",
    "Changed",
    "Descheduler",
    "InTheWay",
    "Metrics",
    "Progress",
    "Run",
    "RunRefused",
    "Settings",
]
