"""The end of a namespace: its content is deleted, and when nothing is left the namespace goes, too.

PUT namespaces/finalize takes a finalizer out of spec. `Namespaces` plays the controller that does so for `kubernetes`,
at the event loop's next turn after whatever made it possible.
"""

from __future__ import annotations

import asyncio

from restow.adapters.memory import bodies, deletion, writes
from restow.adapters.memory.listing import existing
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State
from restow.adapters.memory.store import Change, Collection
from restow.ports import Request, Response

FINALIZER = "kubernetes"


def finalize(state: State, served: ResourceType, request: Request) -> Response:
    """Replace spec.finalizers, and nothing else."""
    sent, _ = bodies.shape(served, bodies.read_object(served, request), "Ignore")
    stored = existing(state.collection(served), served, request)
    writes.check_version(served, stored, sent["metadata"].get("resourceVersion"))
    old = stored.document()
    new = {**old, "spec": {**old.get("spec", {}), "finalizers": (sent.get("spec") or {}).get("finalizers") or []}}
    if not new["spec"]["finalizers"]:
        new["spec"] = {name: value for name, value in new["spec"].items() if name != "finalizers"}
    return Response(body=writes.commit(state, served, stored, old, new))


class Namespaces:
    def __init__(self, state: State) -> None:
        self._state = state
        self._ending: dict[str, None] = {}
        state.store.observers.append(self._observe)

    def _observe(self, collection: Collection, change: Change) -> None:
        if collection.name == "namespaces":
            if change.removed:
                self._ending.pop(change.new.name, None)
            elif change.new.deleting and change.new.name not in self._ending:
                self._ending[change.new.name] = None
                self._finish_soon(change.new.name)
        elif change.removed and change.new.namespace in self._ending:
            self._finish_soon(change.new.namespace)

    def _finish_soon(self, namespace: str) -> None:
        asyncio.get_running_loop().call_soon(self._finish, namespace)

    def _finish(self, namespace: str) -> None:
        """Delete what is left; take the finalizer out when nothing is."""
        if namespace not in self._ending:
            return
        left = False
        for name in sorted(self._state.store.collections):
            collection = self._state.store.collections[name]
            for stored in list(collection.within(namespace)) if name != "namespaces" else ():
                left = True
                if not stored.deleting:
                    served = self._state.catalog.of_collection(name)
                    deletion.carry_out(self._state, served, stored, deletion.DeleteOptions())
        if not left:
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
        writes.commit(self._state, served, stored, old, new)
