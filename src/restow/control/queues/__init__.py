"""The queue controller. Start reading at `queues`."""

from restow.control.queues.metrics import QueueMetrics
from restow.control.queues.queue_controller import QueueController
from restow.control.queues.settings import QueueControllerSettings

__all__ = ["QueueController", "QueueControllerSettings", "QueueMetrics"]
