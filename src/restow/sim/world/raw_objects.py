"""The kinds the world acts on. Workloads are read whole: a controller copies templates, so nothing in them may be
lost."""

from __future__ import annotations

from typing import Any

import msgspec

from restow.model import kinds
from restow.model.kinds import Kind
from restow.model.objects import Document, ObjectMeta


class RawObject(msgspec.Struct, frozen=True, kw_only=True):
    """Typed metadata; spec, status and data as the documents they are."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Document = {}
    status: Document = {}
    data: Document | None = None
    revision: int | None = None


def _raw_kind(kind: Kind[Any]) -> Kind[RawObject]:
    return Kind(
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        plural=kind.plural,
        namespaced=kind.namespaced,
        type=RawObject,
    )


REPLICA_SET = _raw_kind(kinds.REPLICA_SET)
DEPLOYMENT = _raw_kind(kinds.DEPLOYMENT)
STATEFUL_SET = _raw_kind(kinds.STATEFUL_SET)
DAEMON_SET = _raw_kind(kinds.DAEMON_SET)
JOB = _raw_kind(kinds.JOB)
CRON_JOB = Kind(group="batch", kind="CronJob", plural="cronjobs", namespaced=True, type=RawObject)
CONTROLLER_REVISION = Kind(
    group="apps", kind="ControllerRevision", plural="controllerrevisions", namespaced=True, type=RawObject
)
BUDGET = _raw_kind(kinds.POD_DISRUPTION_BUDGET)
