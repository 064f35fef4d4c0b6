"""The door: what the API server refuses by itself, kept equal to what the queue controller would reject.

Goes in: the parameters as they are to be shown (`queues.parameters`). They are written where a policy of `restow
install` reads them, whenever they change, and looked after now and then. Where nothing was installed there is nothing
to keep: that is told once, and guarantees above a ceiling are still rejected by their condition.
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
    def __init__(self, client: Client, clock: Clock, namespace: str, look_again: float) -> None:
        """`look_again` are the seconds after which somebody else may have written something else."""
        self._client, self._clock = client, clock
        self._namespace = namespace
        self._look_again = look_again
        self._kept: tuple[dict[str, str], float] | None = None
        """What was shown when last looked at, and until when that is believed."""
        self._problem = ""

    async def write(self, shown: dict[str, str]) -> bool:
        """See to it that the API server goes by these parameters; False if it should be tried again soon."""
        now = self._clock.now()
        if self._kept is not None and self._kept[0] == shown and now < self._kept[1]:
            return True
        self._kept = shown, now + self._look_again
        try:
            found = await self._client.get(CONFIG_MAP, CEILINGS_NAME, self._namespace)
            data = found.data or {}
            changes: dict[str, str | None] = dict.fromkeys(data.keys() - shown.keys())
            changes |= {key: text for key, text in shown.items() if data.get(key) != text}
            if changes:
                await self._client.patch(CONFIG_MAP, CEILINGS_NAME, {"data": changes}, self._namespace)
                log.info("ceilings shown", extra={"configmap": f"{self._namespace}/{CEILINGS_NAME}"})
            self._problem = ""
        except (ApiError, WireError) as error:
            self._tell(error)
            if not isinstance(error, NotFound | Forbidden):  # which do not pass by themselves
                self._kept = None
        return self._kept is not None

    def _tell(self, error: ApiError | WireError) -> None:
        """Once for as long as it is the same."""
        if str(error) != self._problem:
            self._problem = str(error)
            where = f"{self._namespace}/{CEILINGS_NAME}"
            log.info("ceilings not shown to the API server", extra={"configmap": where, "err": self._problem})
