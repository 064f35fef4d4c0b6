"""Revisions: the templates that StatefulSets and DaemonSets have had, for `kubectl rollout history` and `undo`.

In go a set, its present template and the revisions its pods are of; out come the ControllerRevisions it has and the
writes that make the present template the newest of them. A template that returns is the same revision with a new
number, and revisions beyond the set's history limit are forgotten, the oldest first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from restow.model.kinds import Kind
from restow.model.objects import Document, Pod
from restow.sim.world.raw_objects import CONTROLLER_REVISION, RawObject
from restow.sim.world.rule import adopt_and_release, reference_to
from restow.sim.world.step import Create, Delete, Patch, Write
from restow.sim.world.template import REVISION_HASH
from restow.sim.world.view import View

# Revisions are strategic patches: with this directive, going back also removes what the old template did not have.
_REPLACE = {"$patch": "replace"}


def revision_of(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(REVISION_HASH, "")


def update_revisions(kind: Kind[Any], owner: RawObject, newest: str, used: Collection[str], view: View) -> list[Write]:
    """The writes that make the present template (its revision is named `newest`) the newest revision, and delete the
    oldest ones beyond the history limit that no pod uses."""
    claimed, writes = adopt_and_release(kind, owner, CONTROLLER_REVISION, view)
    known = {each.metadata.name: each for each in claimed if not view.is_leaving(each)}
    latest = max((each.revision or 0 for name, each in known.items() if name != newest), default=0)
    mine = known.get(newest)
    if mine is None:
        writes.append(_create(kind, owner, newest, latest + 1))
    elif (mine.revision or 0) <= latest:
        writes.append(_renumber(mine, latest + 1))
    idle = sorted((each for name, each in known.items() if name != newest and name not in used), key=_number)
    limit = int(owner.spec.get("revisionHistoryLimit", 10))
    return [*writes, *(Delete.of(CONTROLLER_REVISION, revision) for revision in idle[: max(0, len(idle) - limit)])]


def stored_template(namespace: str, name: str, view: View) -> Document | None:
    """The template of a revision, as it was."""
    stored = view.get(CONTROLLER_REVISION, (namespace, name))
    if stored is None or not stored.data:
        return None
    template: Document = stored.data["spec"].get("template") or {}
    return {key: value for key, value in template.items() if key not in _REPLACE}


def _create(kind: Kind[Any], owner: RawObject, name: str, number: int) -> Create:
    template: Document = owner.spec.get("template") or {}
    metadata = {
        "name": name,
        "namespace": owner.metadata.namespace,
        "labels": {**((template.get("metadata") or {}).get("labels") or {}), REVISION_HASH: name},
        "annotations": dict(owner.metadata.annotations or {}),
        "ownerReferences": [reference_to(kind, owner)],
    }
    data = {"spec": {"template": {**template, **_REPLACE}}}
    return Create(CONTROLLER_REVISION, {"metadata": metadata, "revision": number, "data": data})


def _renumber(revision: RawObject, number: int) -> Patch:
    meta = revision.metadata
    return Patch(
        kind=CONTROLLER_REVISION,
        namespace=meta.namespace,
        name=meta.name,
        changes={"revision": number},
        version=meta.resource_version,
    )


def _number(revision: RawObject) -> tuple[int, str]:
    return (revision.revision or 0, revision.metadata.name)
