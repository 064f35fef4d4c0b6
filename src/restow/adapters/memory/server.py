"""`MemoryApi`: an API server in this process, behind `ports.Api`.

In goes a `Request`, out comes what kube-apiserver would answer. Each call gives other tasks a turn and then runs to its
end without awaiting, so writes are atomic and every reader sees whole states. Time, names and UIDs come from the clock
and the randomness handed in: the same calls in the same order give the same cluster.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable

from restow.adapters.memory import (
    access_reviews,
    binding,
    bootstrap,
    deletion,
    errors,
    eviction,
    listing,
    metrics_api,
    namespaces,
    request_bodies,
    scale_subresource,
    token_requests,
    watching,
    writes,
)
from restow.adapters.memory.builtin_resources import BUILTINS
from restow.adapters.memory.custom_resource_definitions import Definitions
from restow.adapters.memory.event_expiry import EventExpiry
from restow.adapters.memory.garbage_collector import GarbageCollector
from restow.adapters.memory.resources import Catalog, ResourceType
from restow.adapters.memory.settings import ServerSettings
from restow.adapters.memory.state import State
from restow.adapters.memory.store import Store
from restow.ports import Clock, Request, Response

DEFAULTS = ServerSettings()

Handler = Callable[[State, ResourceType, Request], Response]

# Verbs of the port -> verbs of discovery, where they differ.
_DISCOVERY_VERBS = {"replace": "update"}
_OF_COLLECTIONS = ("create", "list", "deletecollection")

_VERBS: dict[str, Handler] = {
    "create": writes.create_object,
    "replace": writes.replace_object,
    "patch": writes.patch_object,
    "delete": deletion.delete_object,
    "deletecollection": deletion.delete_collection,
    "get": lambda state, served, request: listing.get_object(state.store, served, request),
    "list": lambda state, served, request: listing.list_objects(state.store, served, request),
}
_SUBRESOURCES: dict[tuple[str, str], Handler] = {
    ("status", "get"): _VERBS["get"],
    ("status", "replace"): writes.replace_object,
    ("status", "patch"): writes.patch_object,
    ("scale", "get"): scale_subresource.get_scale,
    ("scale", "replace"): scale_subresource.replace_scale,
    ("scale", "patch"): scale_subresource.patch_scale,
    ("binding", "create"): binding.bind_pod,
    ("eviction", "create"): eviction.evict_pod,
    ("token", "create"): token_requests.issue_token,
    ("finalize", "replace"): namespaces.finalize_namespace,
    ("resize", "get"): _VERBS["get"],
    ("resize", "replace"): writes.replace_object,
    ("resize", "patch"): writes.patch_object,
    ("ephemeralcontainers", "get"): _VERBS["get"],
    ("ephemeralcontainers", "replace"): writes.replace_object,
    ("ephemeralcontainers", "patch"): writes.patch_object,
}


class MemoryApi:
    """An API server that answers from memory alone.

    `measure` answers metrics.k8s.io; while it is `metrics_api.no_metrics`, discovery does not show that group.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        settings: ServerSettings = DEFAULTS,
        *,
        measure: metrics_api.MetricsSource = metrics_api.no_metrics,
    ) -> None:
        self._state = State(clock, rng, Store(history=settings.history), Catalog(BUILTINS), settings)
        self._bookmark_seconds = settings.bookmark_seconds
        self._measure = measure
        for served in BUILTINS:
            self._state.store.open(served.collection, served.fields, index=served.index)
        self._definitions = Definitions(self._state)
        if settings.collect_garbage:
            GarbageCollector(self._state)
        if settings.end_namespaces:
            namespaces.NamespaceController(self._state)
        if settings.event_seconds is not None:
            EventExpiry(self._state, settings.event_seconds)
        bootstrap.create_initial_objects(self._state)

    def resources(self) -> list[ResourceType]:
        """Everything served right now, in order of group, version and plural."""
        unmeasured = self._measure is metrics_api.no_metrics
        return [served for served in self._state.catalog if not (unmeasured and served.group == metrics_api.GROUP)]

    @property
    def clock(self) -> Clock:
        """The time this server stamps objects with."""
        return self._state.clock

    @property
    def version(self) -> int:
        """The newest resourceVersion."""
        return self._state.store.version

    def compact(self) -> None:
        """Forget the history of changes, as etcd's compaction does: older watches and continue tokens expire."""
        self._state.store.compact()

    async def call(self, request: Request) -> Response:
        await asyncio.sleep(0)
        try:
            return self._answer(request)
        except RecursionError:  # documents are read whole before anything is written, so nothing has changed
            raise errors.bad_request("the body is nested too deeply") from None

    def _answer(self, request: Request) -> Response:
        served = self._find(request)
        request_bodies.check_size(request)
        if served.group == metrics_api.GROUP:
            return metrics_api.answer_metrics(self._measure, served, request)
        if access_reviews.is_review(served):
            return access_reviews.answer_review(self._state, served, request)
        if served.kind == "Binding":
            return binding.bind_pod(self._state, served, request)
        return self._handler(served, request)(self._state, served, request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        every = self._bookmark_seconds
        return watching.watch_objects(self._state.store, lambda: self._find(request), request, bookmark_every=every)

    def _find(self, request: Request) -> ResourceType:
        served = self._state.catalog.find(request.resource)
        if request.subresource is not None:
            known = served.subresource(request.subresource)
            verbs = known.verbs if known else ()
            if known is None:
                raise errors.unknown_resource()
        else:
            verbs = served.verbs
        if _DISCOVERY_VERBS.get(request.verb, request.verb) not in verbs:
            raise errors.method_not_allowed(request.verb, served.plural, served.group)
        self._check_scope(served, request)
        return served

    def _check_scope(self, served: ResourceType, request: Request) -> None:
        if request.namespace is not None and not served.namespaced:
            raise errors.unknown_resource()
        if request.namespace is None and served.namespaced and request.verb not in ("list", "watch"):
            raise errors.bad_request("an empty namespace may not be set when a resource name may be provided")
        of_collection = request.verb in _OF_COLLECTIONS and request.subresource is None
        if not request.name and not of_collection and request.verb != "watch":
            raise errors.method_not_allowed(request.verb, served.plural, served.group)
        if request.verb == "create" and self._definitions.is_ending(served.collection):
            raise errors.method_not_allowed("create while its definition is terminating", served.plural, served.group)

    def _handler(self, served: ResourceType, request: Request) -> Handler:
        sub = request.subresource
        handler = _VERBS.get(request.verb) if sub is None else _SUBRESOURCES.get((sub, request.verb))
        if handler is None:
            raise errors.method_not_allowed(
                request.verb, f"{served.plural}/{sub}" if sub else served.plural, served.group
            )
        return handler
