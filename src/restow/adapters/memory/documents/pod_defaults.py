"""Defaults of a pod's specification, for pods and for the templates inside workloads.

In: a PodSpec as a dict, changed in place. Values that are there are never overwritten; a second pass changes nothing.
"""

from __future__ import annotations

from functools import lru_cache

from restow.model.objects import Document

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_MODE = 0o644
_TOKEN_SECONDS = 3600
_VOLUME_MODES = ("secret", "configMap", "downwardAPI", "projected")


def default_pod(pod: Document) -> None:
    """A pod: the template's defaults plus those that only materialise in pods."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _requests_from_limits(container.get("resources"))
        if spec.get("hostNetwork"):
            _host_ports(container)
    if spec.get("resources"):
        _requests_from_limits(spec["resources"])
    if "enableServiceLinks" not in spec:
        spec["enableServiceLinks"] = True
    if pod.get("status"):
        _same_addresses(pod["status"])


def _same_addresses(status: Document) -> None:
    """The one address and the list of them always agree; the list wins."""
    for single, listed in (("podIP", "podIPs"), ("hostIP", "hostIPs")):
        if status.get(listed):
            status[single] = status[listed][0].get("ip", "")
        elif status.get(single):
            status[listed] = [{"ip": status[single]}]


def default_template(holder: Document) -> None:
    """The pod template of a workload, at `holder["template"]`."""
    template = holder.get("template")
    if isinstance(template, dict):
        default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Document) -> None:
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if "terminationGracePeriodSeconds" not in spec:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    for container in spec.get("containers", ()):
        _default_container(container)
    for name in ("initContainers", "ephemeralContainers"):
        for container in spec.get(name, ()):
            _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


@lru_cache(maxsize=4096)
def pull_policy(image: str) -> str:
    """Always for the tag latest, stated or implied; a digest implies none, and so does what is no image at all."""
    if not image or image != image.strip():
        return "IfNotPresent"
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _default_container(container: Document) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    if "resources" not in container:
        container["resources"] = {}
    for port in container.get("ports", ()):
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env", ()):
        _default_field_reference(variable.get("valueFrom") or {})
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        if isinstance(handler, dict):
            _default_handler(handler)


def _default_probe(probe: Document) -> None:
    probe["timeoutSeconds"] = probe.get("timeoutSeconds") or 1
    probe["periodSeconds"] = probe.get("periodSeconds") or 10
    probe["successThreshold"] = probe.get("successThreshold") or 1
    probe["failureThreshold"] = probe.get("failureThreshold") or 3
    _default_handler(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_handler(handler: Document) -> None:
    get = handler.get("httpGet")
    if get is not None:
        get["path"] = get.get("path") or "/"
        get["scheme"] = get.get("scheme") or "HTTP"


def _requests_from_limits(resources: Document | None) -> None:
    limits = resources.get("limits") if resources else None
    if resources and limits:
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            if name not in requests:
                requests[name] = amount


def _host_ports(container: Document) -> None:
    for port in container.get("ports", ()):
        port["hostPort"] = port.get("hostPort") or port.get("containerPort", 0)


def _default_volume(volume: Document) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
        return
    for kind in _VOLUME_MODES:
        source = volume.get(kind)
        if source is not None and "defaultMode" not in source:
            source["defaultMode"] = _MODE
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    elif "projected" in volume:
        _default_projections(volume["projected"])
    elif "downwardAPI" in volume:
        _default_downward(volume["downwardAPI"])
    elif "iscsi" in volume:
        volume["iscsi"]["iscsiInterface"] = volume["iscsi"].get("iscsiInterface") or "default"
    elif "ephemeral" in volume:
        spec = (volume["ephemeral"].get("volumeClaimTemplate") or {}).get("spec")
        if spec is not None:
            spec.setdefault("volumeMode", "Filesystem")


def _default_projections(projected: Document) -> None:
    for source in projected.get("sources", ()):
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
        if "downwardAPI" in source:
            _default_downward(source["downwardAPI"])


def _default_downward(source: Document) -> None:
    for item in source.get("items", ()):
        _default_field_reference(item)


def _default_field_reference(source: Document) -> None:
    if "fieldRef" in source and not source["fieldRef"].get("apiVersion"):
        source["fieldRef"]["apiVersion"] = "v1"
