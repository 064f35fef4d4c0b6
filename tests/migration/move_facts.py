"""Facts about one move: a pod of a Deployment leaves node n1 for its seat on n2. Tests change what they are about."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from restow.migration.effective_options import EffectiveOptions
from restow.migration.facts import Facts, Objections, WriteAnswer
from restow.migration.facts_before import FactsBeforeEviction, SeatFacts
from restow.model.objects import Document, Node, OwnerReference, Pod, PodMigrationJob, Reservation
from restow.model.times import format_time

NOW = 1_800_000_000.0
OWNERS = (
    OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web-7", uid="rs", controller=True),
    OwnerReference(api_version="apps/v1", kind="Deployment", name="web", uid="deploy", controller=True),
)
YES = WriteAnswer(True)
NO = WriteAnswer(False, "The disruption budget web needs 2 healthy pods and has 2 currently", 10.0)
OURS = "restow-job-uid"


def pod(name: str = "web-1", uid: str = "old", *, node: str | None = "n1", leaving: bool = False, **more: Any) -> Pod:
    """A pod that runs and is Ready, of so many seconds' age."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    metadata: Document = {
        "name": name,
        "namespace": "shop",
        "uid": uid,
        "labels": {"app": "web"},
        "creationTimestamp": format_time(NOW - more.pop("age", 600.0)),
        "annotations": more.pop("annotations", {}),
        "ownerReferences": [msgspec.to_builtins(OWNERS[0])],
    }
    if leaving:
        metadata["deletionTimestamp"] = format_time(NOW)
    spec = {"nodeName": node, "schedulerName": "restow", **more.pop("spec", {})}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {**status, **more}}, Pod)


def successor(**more: Any) -> Pod:
    """The one that took the seat."""
    return pod("web-2", "new", node="n2", **more)


def said(
    type: str, status: str = "True", reason: str = "", message: str = "", age: float = 60.0, **more: Any
) -> Document:
    moment = format_time(NOW - age)
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": moment, **more}


def job(
    *conditions: Document, phase: str = "Running", ref: str | None = OURS, age: float = 60.0, **more: Any
) -> PodMigrationJob:
    """A job that was admitted a minute ago and has its reservation."""
    doubt = "InDoubt" if more.pop("doubt", False) else ""
    admitted = [said("Admitted", reason=doubt, age=age)] if phase == "Running" else []
    if phase == "Running" and ref:
        told = "was created for pod shop/web-1" if ref == OURS else "was given to the job"
        admitted.append(said("ReservationCreated", message=f"reservation shop/{ref} {told}"))
    options = more.pop("options", {})
    if ref is not None:
        options = {"reservationRef": {"namespace": "shop", "name": ref}, **options}
    document = {
        "metadata": {
            "name": "move",
            "uid": "job-uid",
            "creationTimestamp": format_time(NOW - 120),
            "annotations": {"restow.sh/moved-from": "n1", **more.pop("annotations", {})},
            **more.pop("metadata", {}),
        },
        "spec": {
            "podRef": {"namespace": "shop", "name": "web-1", "uid": "old", **more.pop("pod_ref", {})},
            "mode": "ReservationFirst",
            "reservationOptions": options,
            **more.pop("spec", {}),
        },
        "status": {"phase": phase, "conditions": [*admitted, *conditions], **more},
    }
    return msgspec.convert(document, PodMigrationJob)


def pending(*conditions: Document, **more: Any) -> PodMigrationJob:
    return job(*conditions, phase="Pending", ref=more.pop("ref", None), **more)


def seat(node: str = "n2", by: str | None = None, index: int = 0) -> Document:
    taken = {"podRef": {"namespace": "shop", "name": f"web-{by}", "uid": by}} if by else {}
    return {"task": "pod", "index": index, "nodeName": node, **taken}


def reservation(
    *seats: Document, phase: str = "Available", name: str = OURS, ttl: str = "10m", **more: Any
) -> Reservation:
    """The one made for the job, a minute old unless told otherwise, with a seat on n2."""
    ours = name == OURS
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": name,
        "creationTimestamp": format_time(NOW - more.pop("age", 60.0)),
        "labels": {"restow.sh/migration-job": "move"} if ours else {},
        "annotations": {"restow.sh/migrating": "old"} if ours else {},
        **more.pop("metadata", {}),
    }
    spec = {"ttl": ttl, "owners": [{"controller": {"uid": "deploy"}}], **more.pop("spec", {})}
    placements = list(seats) or ([seat()] if phase in ("Available", "Waiting") else [])
    waiting: dict[str, Any] = (
        {"taskStatusCount": {"pod": {"phase": {"Waiting": more.pop("waiting")}}}} if "waiting" in more else {}
    )
    status = {"state": {"phase": phase, **more}, "placements": placements, **waiting}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Reservation)


def node(name: str = "n2", *, age: float | None = None, **spec: Any) -> Node:
    metadata = {"name": name, "labels": spec.pop("labels", {})}
    if age is not None:
        metadata["creationTimestamp"] = format_time(NOW - age)
    return msgspec.convert({"metadata": metadata, "spec": spec}, Node)


def facts(of: PodMigrationJob | None = None, **changes: Any) -> Facts:
    """Everything is read, and ready for the eviction; `node` is that of its seat."""
    read = {"n2": changes.pop("node", node())}
    base = Facts(
        job=of or job(),
        options=EffectiveOptions(ttl=300.0, waiting_ttl=600.0),
        now=NOW,
        pod=pod(),
        owner_chain=OWNERS,
        reservation=reservation(),
        nodes=read if changes.get("is_fresh", True) else {},
        eviction_dry_run=YES,
        is_fresh=True,
    )
    speaks_against = {name: changes.pop(name) for name in Objections.__struct_fields__ if name in changes}
    return replace(base, objections=Objections(**speaks_against), **changes)


def seat_facts(of: Facts) -> SeatFacts:
    """The same facts, of a pod that stays and a reservation that exists."""
    staying = FactsBeforeEviction.of(of)
    assert staying is not None and of.reservation is not None
    return staying.with_reservation(of.reservation)


def before(of: PodMigrationJob | None = None, **changes: Any) -> Facts:
    """Nothing has been done yet."""
    return facts(of or pending(), **{"reservation": None, "node": None, "eviction_dry_run": None, **changes})
