"""The garbage collector: objects go when all their owners are gone.

It observes every change, keeps the graph of owners and dependents, and processes changed objects at the event loop's
next turn: after the write that changed them, before any later call of the same task. The rules are those of
kube-controller-manager: an owner that does not exist (or is in another namespace) counts as gone, an owner of a kind
that is not served does not.
"""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from restow.adapters.memory import deletion
from restow.adapters.memory.deletion import FOREGROUND, ORPHAN, DeleteOptions
from restow.adapters.memory.state import State
from restow.adapters.memory.store import Change, Collection, Stored
from restow.model.objects import Document


class Place(msgspec.Struct, frozen=True, order=True):
    """The collection and the key of an object."""

    collection: str
    namespace: str
    name: str


class GarbageCollector:
    def __init__(self, state: State) -> None:
        self._state = state
        self._places: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}
        self._queue: deque[str] = deque()
        self._queued: set[str] = set()
        self._scheduled = False
        state.store.observers.append(self._observe)

    def _observe(self, collection: Collection, change: Change) -> None:
        new, old = change.new, change.old
        place = Place(collection.name, new.namespace, new.name)
        before = old.owners if old else ()
        after = () if change.removed else new.owners
        if change.removed:
            self._places.pop(new.uid, None)
        elif old is None:
            self._places[new.uid] = place
        if before != after:
            self._relate(place, before, after)
        if change.removed:
            for dependent in self._dependents.get(new.uid, ()):
                self._enqueue(self._uid(dependent))
        for owner in before:
            if owner not in after:  # it may have waited for this
                self._enqueue(owner)
        if not change.removed and (new.deleting or before != after):
            self._enqueue(new.uid)

    def _relate(self, place: Place, before: tuple[str, ...], after: tuple[str, ...]) -> None:
        for owner in before:
            dependents = self._dependents.get(owner, {})
            dependents.pop(place, None)
            if not dependents:
                self._dependents.pop(owner, None)
        for owner in after:
            self._dependents.setdefault(owner, {})[place] = None

    def _uid(self, place: Place) -> str:
        stored = self._at(place)
        return stored.uid if stored else ""

    def _enqueue(self, uid: str) -> None:
        if not uid or uid in self._queued:
            return
        self._queued.add(uid)
        self._queue.append(uid)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._work)

    def _work(self) -> None:
        try:
            while self._queue:
                uid = self._queue.popleft()
                self._queued.discard(uid)
                place = self._places.get(uid)
                stored = self._at(place) if place else None
                if place is not None and stored is not None:
                    self._process_object(place, stored)
        finally:
            self._scheduled = bool(self._queue)
            # Only an exception leaves objects in the queue: one that cannot be processed must not hold up the others.
            if self._scheduled:
                asyncio.get_running_loop().call_soon(self._work)

    def _at(self, place: Place) -> Stored | None:
        collection = self._state.store.collections.get(place.collection)
        return collection.get(place.namespace, place.name) if collection else None

    def _process_object(self, place: Place, stored: Stored) -> None:
        if stored.deleting:
            self._process_finalizers(place, stored)
        elif stored.owners:
            self._process_owners(place, stored)

    def _process_finalizers(self, place: Place, stored: Stored) -> None:
        """An owner that is being deleted: delete its dependents first (foreground), or remove it from them (orphan)."""
        document = stored.document()
        finalizers = document["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            for dependent in sorted(self._dependents.get(stored.uid, ())):
                self._disown(dependent, {stored.uid})
            self._drop_finalizer(place, stored, document, ORPHAN)
        elif FOREGROUND in finalizers:
            if any(self._blocks(dependent, stored.uid) for dependent in self._dependents.get(stored.uid, ())):
                # A dependent that itself waits for its dependents is left out: in a cycle of owners the two would
                # enqueue each other for ever.
                for dependent in sorted(self._dependents[stored.uid]):
                    if not self._awaits_dependents(dependent):
                        self._enqueue(self._uid(dependent))
            else:
                self._drop_finalizer(place, stored, document, FOREGROUND)

    def _blocks(self, place: Place, owner: str) -> bool:
        stored = self._at(place)
        if stored is None:
            return False
        references = stored.document()["metadata"].get("ownerReferences") or ()
        return any(each.get("uid") == owner and each.get("blockOwnerDeletion") for each in references)

    def _awaits_dependents(self, place: Place) -> bool:
        stored = self._at(place)
        if stored is None or not stored.deleting:
            return False
        return FOREGROUND in (stored.document()["metadata"].get("finalizers") or ())

    def _process_owners(self, place: Place, stored: Stored) -> None:
        """Delete an object without a solid owner (one that exists and is not waiting for this dependent); remove the
        other owners from an object that has a solid one."""
        owners = [self._owner(place, uid) for uid in stored.owners]
        if all(owner is not None and not owner.deleting for owner in owners):
            return
        document = stored.document()
        solid, gone, waiting = self._classify(place, document)
        if solid:
            if gone or waiting:
                self._disown(place, {*gone, *waiting})
        elif waiting and self._dependents.get(stored.uid):
            # A dependent that waits as well: perhaps a cycle of owners, in which each would wait for the other.
            if any(map(self._awaits_dependents, self._dependents[stored.uid])):
                stored = self._unblock(place, stored, document)
            self._delete(place, stored, "Foreground")
        elif gone or waiting:
            finalizers = document["metadata"].get("finalizers") or ()
            self._delete(
                place, stored, "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else None
            )

    def _classify(self, place: Place, document: Document) -> tuple[list[str], list[str], list[str]]:
        solid: list[str] = []
        gone: list[str] = []
        waiting: list[str] = []
        for reference in document["metadata"].get("ownerReferences") or ():
            uid = reference.get("uid", "")
            group = reference.get("apiVersion", "").rpartition("/")[0]
            owner = self._owner(place, uid)
            if owner is None:
                # An owner of an unknown kind may exist on another API server: the dependent stays.
                served = self._state.catalog.of_kind(group, reference.get("kind", ""))
                (solid if served is None else gone).append(uid)
            elif owner.deleting and FOREGROUND in (owner.document()["metadata"].get("finalizers") or ()):
                (waiting if reference.get("blockOwnerDeletion") else solid).append(uid)
            else:
                solid.append(uid)
        return solid, gone, waiting

    def _owner(self, place: Place, uid: str) -> Stored | None:
        owner = self._places.get(uid)
        if owner is None or owner.namespace not in ("", place.namespace):
            return None
        return self._at(owner)

    def _delete(self, place: Place, stored: Stored, policy: str | None) -> None:
        served = self._state.catalog.of_collection(place.collection)
        deletion.delete_stored_object(
            self._state, served, stored, DeleteOptions(propagation_policy=policy or "Background")
        )

    def _unblock(self, place: Place, stored: Stored, document: Document) -> Stored:
        """Allow the owners of an object to be deleted before it, so that a cycle of owners can end."""
        for reference in document["metadata"]["ownerReferences"]:
            reference["blockOwnerDeletion"] = False
            self._enqueue(reference["uid"])
        return self._state.store.put(self._state.store.collections[place.collection], document)

    def _disown(self, place: Place, owners: set[str]) -> None:
        stored = self._at(place)
        if stored is None:
            return
        document = stored.document()
        metadata = document["metadata"]
        kept = [each for each in metadata.get("ownerReferences") or () if each.get("uid") not in owners]
        if kept:
            metadata["ownerReferences"] = kept
        else:
            metadata.pop("ownerReferences", None)
        self._state.store.put(self._state.store.collections[place.collection], document)

    def _drop_finalizer(self, place: Place, stored: Stored, document: Document, name: str) -> None:
        metadata = document["metadata"]
        metadata["finalizers"] = [each for each in metadata["finalizers"] if each != name]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
        collection = self._state.store.collections[place.collection]
        if deletion.is_deletion_complete(document):
            self._state.store.remove(collection, stored)
        else:
            self._state.store.put(collection, document)
