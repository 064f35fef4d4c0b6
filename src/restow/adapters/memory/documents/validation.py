"""Upstream's validation of the built-in kinds: every wrong field of a document, with its path.

In: the document about to be stored, defaults applied, and the stored one on updates. Out: all causes for refusing it,
empty when it is fine. A specification that an update leaves alone is not checked again; status is its writers'
business.
"""

from __future__ import annotations

from collections.abc import Callable

from restow.adapters.memory.documents import cluster_rules, workload_rules
from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.metadata_rules import check_metadata, check_metadata_update
from restow.adapters.memory.documents.pod_rules import check_new_pod, check_pod, check_pod_update
from restow.adapters.memory.documents.result_cache import ResultCache
from restow.model.objects import Document
from restow.ports import StatusCause

Rule = Callable[[Document, Document | None, FieldErrors], None]


def validate_builtin(
    doc: Document,
    old: Document | None,
    *,
    group: str,
    kind: str,
    subresource: str | None = None,
) -> list[StatusCause]:
    """All causes for refusing `doc`; `old` is the stored document on updates, None on creation."""
    errors = FieldErrors()
    metadata = doc["metadata"]
    if old is None or metadata != old["metadata"]:
        check_metadata(metadata, errors, group=group, kind=kind)
        if old is not None:
            check_metadata_update(metadata, old["metadata"], errors)
    if subresource == "status" and kind != "Node":
        return errors.causes
    if kind == "Pod":
        if old is None or doc.get("spec") != old.get("spec"):
            errors.causes += _POD_SPECS.get_or_compute(doc.get("spec"), lambda: _pod_causes(doc))
            if old is None:
                check_new_pod(doc, errors)
            else:
                check_pod_update(doc, old, subresource, errors)
    else:
        rule = _RULES.get((group, kind))
        if rule is not None:
            rule(doc, old, errors)
    return errors.causes


_POD_SPECS: ResultCache[list[StatusCause]] = ResultCache()


def _pod_causes(pod: Document) -> list[StatusCause]:
    errors = FieldErrors()
    check_pod(pod, errors)
    return errors.causes


RBAC = "rbac.authorization.k8s.io"
_RULES: dict[tuple[str, str], Rule] = {
    ("", "Namespace"): cluster_rules.check_namespace,
    ("", "Node"): cluster_rules.check_node,
    ("", "ConfigMap"): cluster_rules.check_config_map,
    ("", "Secret"): cluster_rules.check_secret,
    ("", "PersistentVolume"): cluster_rules.check_volume,
    ("", "PersistentVolumeClaim"): cluster_rules.check_claim,
    ("", "Service"): cluster_rules.check_service,
    ("", "ServiceAccount"): cluster_rules.check_service_account,
    ("", "Event"): cluster_rules.check_event,
    ("events.k8s.io", "Event"): cluster_rules.check_event,
    ("apps", "Deployment"): workload_rules.check_deployment,
    ("apps", "ReplicaSet"): workload_rules.check_replica_set,
    ("apps", "StatefulSet"): workload_rules.check_stateful_set,
    ("apps", "DaemonSet"): workload_rules.check_daemon_set,
    ("batch", "Job"): workload_rules.check_job,
    ("batch", "CronJob"): workload_rules.check_cron_job,
    ("policy", "PodDisruptionBudget"): workload_rules.check_budget,
    ("coordination.k8s.io", "Lease"): cluster_rules.check_lease,
    ("scheduling.k8s.io", "PriorityClass"): cluster_rules.check_priority_class,
    ("storage.k8s.io", "StorageClass"): cluster_rules.check_storage_class,
    ("storage.k8s.io", "VolumeAttachment"): cluster_rules.check_volume_attachment,
    ("storage.k8s.io", "CSINode"): cluster_rules.check_csi_node,
    (RBAC, "RoleBinding"): cluster_rules.check_role_binding,
    (RBAC, "ClusterRoleBinding"): cluster_rules.check_role_binding,
    (RBAC, "Role"): cluster_rules.check_role,
    (RBAC, "ClusterRole"): cluster_rules.check_role,
}
