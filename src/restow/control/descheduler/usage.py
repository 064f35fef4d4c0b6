"""Usage: what nodes and pods really use, as metrics.k8s.io tells it."""

from __future__ import annotations

import logging

from restow.client.verbs import Client
from restow.model.kinds import NODE_METRICS, POD_METRICS
from restow.model.wire import WireError
from restow.planning.measured import Measured, measured
from restow.ports import ApiError

log = logging.getLogger(__name__)


async def measured_use(client: Client) -> Measured:
    """What is measured now; nothing, and why, where nobody measures."""
    try:
        nodes, pods = await client.list(NODE_METRICS), await client.list(POD_METRICS)
    except (ApiError, WireError) as error:
        log.warning("no measured use", extra={"err": str(error)})
        return Measured(trouble=str(error))
    return measured(nodes.items, pods.items)
