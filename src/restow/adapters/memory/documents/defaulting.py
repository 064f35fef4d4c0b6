"""Upstream's defaults of the built-in kinds, set in place.

In: a private document of the stored kind. Out: the same document with what the API fills in where nothing is said.
Values that are there are never overwritten, and a second pass changes nothing. What depends on other objects
(priority, default storage class) or belongs to creation (first status, finalizers) is the server's, not a default.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from restow.adapters.memory.documents.pod_defaults import default_pod, default_template
from restow.model.names import label_value_problems
from restow.model.objects import Document

RBAC = "rbac.authorization.k8s.io"
_MAX_INT32 = 2**31 - 1


def apply_defaults(doc: Document, *, group: str, kind: str) -> None:
    """Fill what upstream fills for this kind; a kind without defaults is left alone."""
    fill = _DEFAULTS.get((group, kind))
    if fill is not None:
        fill(doc)


def _fill(document: Document, **values: Any) -> None:
    """Set members that are absent or empty text; the names are camelCase, as on the wire."""
    for name, value in values.items():
        if document.get(name) in (None, ""):
            document[name] = value


def _deployment(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {})
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
    default_template(spec)


def _replica_set(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    _fill(spec, replicas=1)
    default_template(spec)


def _replication_controller(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    _fill(spec, replicas=1)
    default_template(spec)
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not doc["metadata"].get("labels"):
            doc["metadata"]["labels"] = dict(labels)


def _stateful_set(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    _fill(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
        _fill(strategy["rollingUpdate"], partition=0)
    _fill(spec.setdefault("persistentVolumeClaimRetentionPolicy", {}), whenDeleted="Retain", whenScaled="Retain")
    for claim in spec.get("volumeClaimTemplates", ()):
        # Claims inside templates are written with their own type, as the object inside a Go struct is.
        _fill(claim, kind="PersistentVolumeClaim", apiVersion="v1")
        _claim(claim)
    default_template(spec)


def _daemon_set(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    _fill(spec, revisionHistoryLimit=10)
    _fill(doc["metadata"].setdefault("annotations", {}), **{"deprecated.daemonset.template.generation": "1"})
    strategy = spec.setdefault("updateStrategy", {})
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(strategy.setdefault("rollingUpdate", {}), maxUnavailable=1, maxSurge=0)
    default_template(spec)


def _job(doc: Document) -> None:
    _job_spec(doc.setdefault("spec", {}))
    _select_own_pods(doc)
    labels = (doc["spec"].get("template") or {}).get("metadata", {}).get("labels")
    if labels and not doc["metadata"].get("labels") and not label_value_problems(doc["metadata"].get("name", "")):
        # Upstream lets the job share its template's labels, those it has just added included, once they are known to
        # be good: a name that is no label is a mistake of the template alone.
        doc["metadata"]["labels"] = dict(labels)


def _job_spec(spec: Document) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    _fill(
        spec,
        parallelism=1,
        backoffLimit=_MAX_INT32 if "backoffLimitPerIndex" in spec else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        manualSelector=False,
    )
    for rule in (spec.get("podFailurePolicy") or {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            _fill(pattern, status="True")
    default_template(spec)


def _select_own_pods(job: Document) -> None:
    """A job without a selector of its own selects its pods by its uid; known once the uid is."""
    spec, uid = job["spec"], job["metadata"].get("uid")
    if not uid or spec.get("manualSelector") or spec.get("selector"):
        return
    name = job["metadata"].get("name", "")
    labels = spec.setdefault("template", {}).setdefault("metadata", {}).setdefault("labels", {})
    labels["controller-uid"] = labels["batch.kubernetes.io/controller-uid"] = uid
    labels["job-name"] = labels["batch.kubernetes.io/job-name"] = name
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _cron_job(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    _fill(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template = spec.get("jobTemplate")
    if isinstance(template, dict):
        # Only the pod inside is defaulted; the job gets its defaults when it is made.
        default_template(template.setdefault("spec", {}))


def _service(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    _fill(spec, sessionAffinity="None", type="ClusterIP")
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports", ()):
        _fill(port, protocol="TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer", "ClusterIP"):
        _fill(spec, internalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        _fill(spec, allocateLoadBalancerNodePorts=True)


def _volume(doc: Document) -> None:
    _fill(doc.setdefault("status", {}), phase="Pending")
    spec = doc.setdefault("spec", {})
    _fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def _claim(doc: Document) -> None:
    _fill(doc.setdefault("status", {}), phase="Pending")
    _fill(doc.setdefault("spec", {}), volumeMode="Filesystem")


def _storage_class(doc: Document) -> None:
    _fill(doc, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _csi_driver(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    _fill(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
    )
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]


def _node(doc: Document) -> None:
    spec, status = doc.get("spec") or {}, doc.get("status")
    if spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    elif spec.get("podCIDR"):
        spec["podCIDRs"] = [spec["podCIDR"]]
    if status and status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _namespace(doc: Document) -> None:
    metadata = doc["metadata"]
    if metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
    _fill(doc.setdefault("status", {}), phase="Active")


def _secret(doc: Document) -> None:
    _fill(doc, type="Opaque")
    for key, text in doc.pop("stringData", {}).items():  # only ever written; reading gives it as data
        doc.setdefault("data", {})[key] = b64encode(text.encode()).decode()


def _priority_class(doc: Document) -> None:
    _fill(doc, preemptionPolicy="PreemptLowerPriority")


def _binding(doc: Document) -> None:
    _fill(doc.setdefault("roleRef", {}), apiGroup=RBAC)
    for subject in doc.get("subjects", ()):
        if subject.get("kind") in ("User", "Group"):
            _fill(subject, apiGroup=RBAC)


def _custom_resource_definition(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    _fill(names, singular=kind.lower())
    if kind:
        _fill(names, listKind=f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    status = doc.setdefault("status", {})
    if not status.get("storedVersions"):
        status["storedVersions"] = [each.get("name") for each in spec.get("versions", ()) if each.get("storage")][:1]


def _webhooks(doc: Document) -> None:
    for hook in doc.get("webhooks", ()):
        _fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        for rule in hook.get("rules", ()):
            _fill(rule, scope="*")
        if "service" in hook.get("clientConfig", {}):
            _fill(hook["clientConfig"]["service"], port=443)


def _mutating_webhooks(doc: Document) -> None:
    _webhooks(doc)
    for hook in doc.get("webhooks", ()):
        _fill(hook, reinvocationPolicy="Never")


def _endpoints(doc: Document) -> None:
    for subset in doc.get("subsets", ()):
        for port in subset.get("ports", ()):
            _fill(port, protocol="TCP")


def _limit_range(doc: Document) -> None:
    for item in doc.get("spec", {}).get("limits", ()):
        if item.get("type") == "Container":
            limits = {**item.get("max", {}), **item.get("default", {})}
            requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
            item.update(
                {name: values for name, values in (("default", limits), ("defaultRequest", requests)) if values}
            )


def _network_policy(doc: Document) -> None:
    spec = doc.setdefault("spec", {})
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            _fill(port, protocol="TCP")


def _ingress_class(doc: Document) -> None:
    if "parameters" in doc.get("spec", {}):
        _fill(doc["spec"]["parameters"], scope="Cluster")


def _autoscaler(doc: Document) -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    _fill(doc.setdefault("spec", {}), minReplicas=1, metrics=metrics)


def _endpoint_slice(doc: Document) -> None:
    for port in doc.get("ports", ()):
        _fill(port, name="", protocol="TCP")


_DEFAULTS: dict[tuple[str, str], Callable[[Document], None]] = {
    ("", "Pod"): default_pod,
    ("", "PodTemplate"): default_template,
    ("", "ReplicationController"): _replication_controller,
    ("", "Service"): _service,
    ("", "Endpoints"): _endpoints,
    ("", "Node"): _node,
    ("", "Namespace"): _namespace,
    ("", "Secret"): _secret,
    ("", "LimitRange"): _limit_range,
    ("", "PersistentVolume"): _volume,
    ("", "PersistentVolumeClaim"): _claim,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("networking.k8s.io", "IngressClass"): _ingress_class,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("storage.k8s.io", "CSIDriver"): _csi_driver,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    (RBAC, "RoleBinding"): _binding,
    (RBAC, "ClusterRoleBinding"): _binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _custom_resource_definition,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _mutating_webhooks,
}
