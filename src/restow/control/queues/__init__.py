"""The queue controller. Start reading at `queues`."""

from restow.control.queues.metrics import Metrics
from restow.control.queues.queues import Queues
from restow.control.queues.settings import Settings

__all__ = ["Metrics", "Queues", "Settings"]
