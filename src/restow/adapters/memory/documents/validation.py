"""Upstream's validation of the built-in kinds: every wrong field of a document, with its path.

In: the document about to be stored, defaults applied, and the stored one on updates. Out: all causes for refusing it,
empty when it is fine. A specification that an update leaves alone is not checked again; status is its writers'
business.
"""

from __future__ import annotations

from collections.abc import Callable

from restow.adapters.memory.documents import clusterrules, workloadrules
from restow.adapters.memory.documents.findings import Findings
from restow.adapters.memory.documents.metadatarules import check_metadata, check_metadata_update
from restow.adapters.memory.documents.podrules import check_new_pod, check_pod, check_pod_update
from restow.adapters.memory.documents.remembering import Remembered
from restow.model.objects import Document
from restow.ports import StatusCause

Rule = Callable[[Document, Document | None, Findings], None]


def validate(
    doc: Document,
    old: Document | None,
    *,
    group: str,
    kind: str,
    subresource: str | None = None,
) -> list[StatusCause]:
    """All causes for refusing `doc`; `old` is the stored document on updates, None on creation."""
    found = Findings()
    metadata = doc["metadata"]
    if old is None or metadata != old["metadata"]:
        check_metadata(metadata, found, group=group, kind=kind)
        if old is not None:
            check_metadata_update(metadata, old["metadata"], found)
    if subresource == "status" and kind != "Node":
        return found.causes
    if kind == "Pod":
        if old is None or doc.get("spec") != old.get("spec"):
            found.causes += _POD_SPECS.of(doc.get("spec"), lambda: _pod_causes(doc))
            if old is None:
                check_new_pod(doc, found)
            else:
                check_pod_update(doc, old, subresource, found)
    else:
        rule = _RULES.get((group, kind))
        if rule is not None:
            rule(doc, old, found)
    return found.causes


_POD_SPECS: Remembered[list[StatusCause]] = Remembered()


def _pod_causes(pod: Document) -> list[StatusCause]:
    found = Findings()
    check_pod(pod, found)
    return found.causes


RBAC = "rbac.authorization.k8s.io"
_RULES: dict[tuple[str, str], Rule] = {
    ("", "Namespace"): clusterrules.check_namespace,
    ("", "Node"): clusterrules.check_node,
    ("", "ConfigMap"): clusterrules.check_config_map,
    ("", "Secret"): clusterrules.check_secret,
    ("", "PersistentVolume"): clusterrules.check_volume,
    ("", "PersistentVolumeClaim"): clusterrules.check_claim,
    ("", "Service"): clusterrules.check_service,
    ("", "ServiceAccount"): clusterrules.check_service_account,
    ("", "Event"): clusterrules.check_event,
    ("events.k8s.io", "Event"): clusterrules.check_event,
    ("apps", "Deployment"): workloadrules.check_deployment,
    ("apps", "ReplicaSet"): workloadrules.check_replica_set,
    ("apps", "StatefulSet"): workloadrules.check_stateful_set,
    ("apps", "DaemonSet"): workloadrules.check_daemon_set,
    ("batch", "Job"): workloadrules.check_job,
    ("batch", "CronJob"): workloadrules.check_cron_job,
    ("policy", "PodDisruptionBudget"): workloadrules.check_budget,
    ("coordination.k8s.io", "Lease"): clusterrules.check_lease,
    ("scheduling.k8s.io", "PriorityClass"): clusterrules.check_priority_class,
    ("storage.k8s.io", "StorageClass"): clusterrules.check_storage_class,
    ("storage.k8s.io", "VolumeAttachment"): clusterrules.check_volume_attachment,
    ("storage.k8s.io", "CSINode"): clusterrules.check_csi_node,
    (RBAC, "RoleBinding"): clusterrules.check_role_binding,
    (RBAC, "ClusterRoleBinding"): clusterrules.check_role_binding,
    (RBAC, "Role"): clusterrules.check_role,
    (RBAC, "ClusterRole"): clusterrules.check_role,
}
