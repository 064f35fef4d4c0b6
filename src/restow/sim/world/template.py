"""Pod templates: their hash, and the pod a controller makes of one.

Templates are documents and stay documents: a controller copies every field of a template into the pods it creates, also
unknown ones.
"""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from restow.model.objects import Document

TEMPLATE_HASH = "pod-template-hash"
REVISION_HASH = "controller-revision-hash"

# No vowels and no digits that look like them: a name made by chance spells nothing.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Mapping[str, Any], collisions: int = 0) -> str:
    """Ten characters that depend on every field of the template (not on their order) and on the collision count."""
    canonical = msgspec.json.encode([without_hash(template), collisions], order="deterministic")
    digest = int.from_bytes(hashlib.blake2b(canonical, digest_size=10).digest(), "big")
    return "".join(_SAFE[digest // len(_SAFE) ** place % len(_SAFE)] for place in range(10))


def revision_name(owner: str, template: Mapping[str, Any]) -> str:
    """What a StatefulSet or DaemonSet calls this template; pods made of it carry the name."""
    return f"{owner}-{template_hash(template)}"


def without_hash(template: Mapping[str, Any]) -> Document:
    """The template as its owner wrote it, without the label that a Deployment adds."""
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH}
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    return {**template, "metadata": {key: value for key, value in metadata.items() if value is not None}}


def random_suffix(rng: random.Random) -> str:
    return "".join(rng.choices(_SAFE, k=5))


def controller_reference(api_version: str, kind: str, name: str, uid: str) -> Document:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from(template: Mapping[str, Any], namespace: str, name: str, owner: Mapping[str, Any]) -> Document:
    """The pod that `owner` (a controller reference) makes of its template; the two share nothing."""
    metadata = template.get("metadata") or {}
    kept: Document = {key: dict(metadata[key]) for key in ("labels", "annotations") if metadata.get(key)}
    if metadata.get("finalizers"):
        kept["finalizers"] = list(metadata["finalizers"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, "name": name, "namespace": namespace, "ownerReferences": [dict(owner)]},
        "spec": copy.deepcopy(template.get("spec") or {}),
    }
