"""Keeps the ConfigMap up to date from which the API server refuses guarantees above a ceiling.

Goes in: the parameters as they should be (`queues.admission_parameters`). They are written where the admission policy
of `restow install` reads them: when they change, and again after a while, in case the ConfigMap was edited. Without
that ConfigMap there is nothing to do. That is logged once, and a guarantee above a ceiling is still rejected by its
condition.
"""

from __future__ import annotations

import logging

from restow.client.verbs import Client
from restow.model.kinds import CONFIG_MAP
from restow.model.wire import WireError
from restow.ports import ApiError, Clock, Forbidden, NotFound
from restow.queues.admission_policies import CEILINGS_NAME

log = logging.getLogger(__name__)


class AdmissionParametersWriter:
    def __init__(self, client: Client, clock: Clock, namespace: str, resync_period: float) -> None:
        self._client, self._clock = client, clock
        self._namespace = namespace
        self._resync_period = resync_period
        self._written: tuple[dict[str, str], float] | None = None
        """What was last written, and until when the ConfigMap is assumed to contain it."""
        self._logged_problem = ""

    async def write(self, parameters: dict[str, str]) -> bool:
        """Write the parameters if the ConfigMap has others. Returns False if that should be tried again soon."""
        now = self._clock.now()
        if self._written is not None and self._written[0] == parameters and now < self._written[1]:
            return True
        self._written = parameters, now + self._resync_period
        try:
            config_map = await self._client.get(CONFIG_MAP, CEILINGS_NAME, self._namespace)
            data = config_map.data or {}
            changes: dict[str, str | None] = dict.fromkeys(data.keys() - parameters.keys())
            changes |= {key: value for key, value in parameters.items() if data.get(key) != value}
            if changes:
                await self._client.patch(CONFIG_MAP, CEILINGS_NAME, {"data": changes}, self._namespace)
                log.info("admission parameters written", extra={"configmap": f"{self._namespace}/{CEILINGS_NAME}"})
            self._logged_problem = ""
        except (ApiError, WireError) as error:
            self._log_problem(error)
            # A missing ConfigMap or a missing right stays missing until an administrator acts: wait for the next
            # resync.
            if not isinstance(error, NotFound | Forbidden):
                self._written = None
        return self._written is not None

    def _log_problem(self, error: ApiError | WireError) -> None:
        """Log an error once for as long as it stays the same."""
        if str(error) != self._logged_problem:
            self._logged_problem = str(error)
            config_map = f"{self._namespace}/{CEILINGS_NAME}"
            log.info("admission parameters not written", extra={"configmap": config_map, "err": self._logged_problem})
