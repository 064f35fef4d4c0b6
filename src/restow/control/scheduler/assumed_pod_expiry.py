"""Assumed-pod expiry: assumed pods that the API never confirmed.

Goes in: the assumed pods of the snapshot, and time. Comes out: pods that were confirmed or forgotten after a read of
the API. An assumed pod holds room on its node until the watch shows it bound, or gone. If that event never comes, the
room would be held for nothing. kube-scheduler lets such a pod expire; here the API is asked, because a pod that is
bound after all must not be forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container

from restow.control.scheduler.dependencies import SchedulerDependencies
from restow.control.scheduler.pod_updates import PodUpdates
from restow.control.scheduler.scheduler_cache import SchedulerCache
from restow.model.cluster.known_pods import is_stale
from restow.model.kinds import POD
from restow.model.objects import Pod
from restow.model.wire import WireError
from restow.ports import ApiError, NotFound

log = logging.getLogger(__name__)


class AssumedPodExpiry:
    def __init__(
        self,
        dependencies: SchedulerDependencies,
        cache: SchedulerCache,
        pods: PodUpdates,
        binding: Container[str],
    ) -> None:
        """`binding` has the UIDs of the pods with a binding cycle under way."""
        self._client = dependencies.client
        self._clock = dependencies.clock
        self._settings = dependencies.settings
        self._cache = cache
        self._pods = pods
        self._binding = binding

    async def run(self) -> None:
        """Check periodically until cancelled."""
        while True:
            await asyncio.sleep(self._settings.assumed_pod_check_period)
            for assumed in self._cache.snapshot.assumed(self._clock.now()):
                is_old = is_stale(assumed.age, self._settings.assumed_pod_max_age)
                if is_old and assumed.pod.metadata.uid not in self._binding:
                    await self._confirm_or_forget(assumed.pod)

    async def _confirm_or_forget(self, assumed: Pod) -> None:
        meta = assumed.metadata
        try:
            pod: Pod | None = await self._client.get(POD, meta.name, meta.namespace)
        except NotFound:
            pod = None
        except (ApiError, WireError) as error:
            log.info("pod cannot be read", extra={"pod": meta.name, "namespace": meta.namespace, "err": str(error)})
            return
        if meta.uid in self._binding:  # scheduled again during the read
            return
        log.warning("assumption not confirmed", extra={"pod": meta.name, "namespace": meta.namespace})
        if pod is None or pod.metadata.uid != meta.uid:
            self._pods.remove_pod(assumed)
        else:
            if not pod.spec.node_name:
                self._pods.forget_pod(assumed)
            self._pods.upsert_pod(pod)
        self._cache.signal.wake_scheduling_loop()
