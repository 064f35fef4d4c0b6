"""The end of a namespace: its content is deleted, and when nothing is left the namespace goes, too.

PUT namespaces/finalize takes a finalizer out of spec. `Namespaces` plays the controller that does so for `kubernetes`,
at the event loop's next turn after whatever made it possible.
"""

from __future__ import annotations

import asyncio

from restow.adapters.memory import deletion, query_parameters, request_bodies, writes
from restow.adapters.memory.listing import existing_object
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State
from restow.adapters.memory.store import Change, Collection, encode_json
from restow.ports import Request, Response

FINALIZER = "kubernetes"


def finalize_namespace(state: State, served: ResourceType, request: Request) -> Response:
    """Replace spec.finalizers, and nothing else."""
    sent, _ = request_bodies.to_stored_form(served, request_bodies.read_object(served, request), "Ignore")
    stored = existing_object(state.collection(served), served, request)
    writes.check_version(served, stored, sent["metadata"].get("resourceVersion"))
    old = stored.document()
    new = {**old, "spec": {**old.get("spec", {}), "finalizers": (sent.get("spec") or {}).get("finalizers") or []}}
    if not new["spec"]["finalizers"]:
        new["spec"] = {name: value for name, value in new["spec"].items() if name != "finalizers"}
    if query_parameters.dry_run(request):
        return Response(body=encode_json(new))
    return Response(body=writes.store_object(state, served, stored, old, new))


class NamespaceController:
    def __init__(self, state: State) -> None:
        self._state = state
        self._ending: set[str] = set()
        self._scheduled: set[str] = set()
        state.store.observers.append(self._observe)

    def _observe(self, collection: Collection, change: Change) -> None:
        if collection.name == "namespaces":
            if change.removed:
                self._ending.discard(change.new.name)
            elif change.new.deleting and change.new.name not in self._ending:
                self._ending.add(change.new.name)
                asyncio.get_running_loop().call_soon(self._empty, change.new.name)
        elif change.removed and change.new.namespace in self._ending:
            self._finish_soon(change.new.namespace)

    def _empty(self, namespace: str) -> None:
        """Delete all content, once: a terminating namespace takes nothing new."""
        for name in sorted(self._state.store.collections):
            served = self._state.catalog.of_collection(name)
            for stored in list(self._state.store.collections[name].within(namespace)) if served.namespaced else ():
                if not stored.deleting:
                    deletion.delete_stored_object(self._state, served, stored, deletion.DeleteOptions())
        self._finish(namespace)

    def _finish_soon(self, namespace: str) -> None:
        if namespace not in self._scheduled:
            self._scheduled.add(namespace)
            asyncio.get_running_loop().call_soon(self._finish, namespace)

    def _finish(self, namespace: str) -> None:
        """Take the finalizer out when nothing is left."""
        self._scheduled.discard(namespace)
        if not any(collection.count(namespace) for collection in self._state.store.collections.values()):
            self._let_go(namespace)

    def _let_go(self, namespace: str) -> None:
        collection = self._state.builtin("namespaces")
        stored = collection.get("", namespace)
        if stored is None:
            return
        served = self._state.catalog.of_collection("namespaces")
        old = stored.document()
        finalizers = [each for each in old.get("spec", {}).get("finalizers", ()) if each != FINALIZER]
        new = {**old, "spec": {**old.get("spec", {}), "finalizers": finalizers}}
        writes.store_object(self._state, served, stored, old, new)
