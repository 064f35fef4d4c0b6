"""The queue controller. Start reading at `queue_controller`."""

from restow.control.queues.metrics import QueueMetrics
from restow.control.queues.queue_controller import QueueController
from restow.control.queues.settings import QueueControllerConfiguration, QueueControllerSettings

__all__ = ["QueueController", "QueueControllerConfiguration", "QueueControllerSettings", "QueueMetrics"]
