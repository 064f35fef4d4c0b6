"""Rules for containers and volumes of a pod."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import ip_address
from typing import Any

from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.resource_rules import check_amount, check_resources
from restow.model.names import dns_label_problems, subdomain_problems
from restow.model.objects import Document

_PULL = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_PORT_NAME = re.compile(r"(?=[a-z0-9-]*[a-z])(?!-)(?!.*--)[a-z0-9-]{1,15}(?<!-)", re.ASCII)
_ENV_NAME = re.compile(r"[^=\x00-\x1f\x7f]+")
_FIELD_PATHS = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeName",
        "spec.serviceAccountName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_KEYED_PATH = re.compile(r"metadata\.(labels|annotations)\['[^']+'\]")
_MAX_INT32 = 2**31 - 1
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def check_containers(spec: Document, field: str, errors: FieldErrors, claims: Collection[str] = ()) -> None:
    """All containers of a pod spec; names are unique across ordinary and init containers."""
    volumes = {*claims, *(volume.get("name") for volume in spec.get("volumes", ()))}
    seen: set[str] = set()
    containers = spec.get("containers")
    if not containers:
        errors.required(f"{field}.containers")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            _check_container(container, f"{field}.{kind}[{index}]", errors, volumes, seen)
            if kind == "initContainers":
                _check_init(container, f"{field}.{kind}[{index}]", errors)
            elif (
                "restartPolicy" in container and "restartPolicyRules" not in container and kind == "ephemeralContainers"
            ):
                errors.forbidden(f"{field}.{kind}[{index}].restartPolicy", "may not be set for ephemeral containers")
    if containers:
        _check_host_ports(containers, f"{field}.containers", errors)


def _check_container(container: Document, field: str, errors: FieldErrors, volumes: set[Any], seen: set[str]) -> None:
    _check_container_name(container.get("name"), f"{field}.name", errors, seen)
    _check_image(container.get("image"), f"{field}.image", errors)
    _check_one_of(container, "imagePullPolicy", _PULL, field, errors)
    _check_one_of(container, "terminationMessagePolicy", _MESSAGE_POLICIES, field, errors)
    if ports := container.get("ports"):
        _check_ports(ports, f"{field}.ports", errors)
    if environment := container.get("env"):
        _check_environment(environment, f"{field}.env", errors)
    if resources := container.get("resources"):
        check_resources(resources, f"{field}.resources", errors)
    if mounts := container.get("volumeMounts"):
        _check_mounts(mounts, "mountPath", f"{field}.volumeMounts", errors, volumes)
    if devices := container.get("volumeDevices"):
        _check_mounts(devices, "devicePath", f"{field}.volumeDevices", errors, volumes)
    check_identity(container.get("securityContext") or {}, f"{field}.securityContext", errors)
    for probe in _PROBES:
        if probe in container:
            _check_probe(container[probe], probe, f"{field}.{probe}", errors)


def _check_container_name(name: str | None, field: str, errors: FieldErrors, seen: set[str]) -> None:
    if not name:
        errors.required(field)
    elif name in seen:
        errors.duplicate(field, name)
    else:
        seen.add(name)
        if problems := dns_label_problems(name):
            errors.all_invalid(field, name, problems)


def _check_image(image: str | None, field: str, errors: FieldErrors) -> None:
    if not image:
        errors.required(field)
    elif image != image.strip():
        errors.invalid(field, image, "must not have leading or trailing whitespace")


def check_identity(context: Document, field: str, errors: FieldErrors) -> None:
    """The user and group IDs that a container, or every container of a pod, runs as."""
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        if context.get(name) is not None and not 0 <= context[name] <= _MAX_INT32:
            errors.invalid(f"{field}.{name}", context[name], f"must be between 0 and {_MAX_INT32}, inclusive")


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_one_of(holder: Document, name: str, known: tuple[str, ...], field: str, errors: FieldErrors) -> None:
    value = holder.get(name)
    if value not in known:
        if value:
            errors.unsupported(f"{field}.{name}", value, known)
        else:
            errors.required(f"{field}.{name}")


def _check_init(container: Document, field: str, errors: FieldErrors) -> None:
    policy = container.get("restartPolicy")
    if policy == "Always":
        return
    if policy is not None and policy not in ("Never", "OnFailure"):
        errors.unsupported(f"{field}.restartPolicy", policy, ("Always",))
    for name in ("lifecycle", *_PROBES):
        if name in container:
            errors.forbidden(f"{field}.{name}", "may not be set for init containers without restartPolicy=Always")


def _check_ports(ports: list[Document], field: str, errors: FieldErrors) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        name, number, host = port.get("name"), port.get("containerPort"), port.get("hostPort")
        if name:
            if not _PORT_NAME.fullmatch(name):
                why = "must be at most 15 lower case letters, digits or single '-', with at least one letter"
                errors.invalid(f"{field}[{index}].name", name, why)
            elif name in names:
                errors.duplicate(f"{field}[{index}].name", name)
            names.add(name)
        if not number:
            errors.required(f"{field}[{index}].containerPort")
        elif not 0 < number < 65536:
            errors.invalid(f"{field}[{index}].containerPort", number, "must be between 1 and 65535, inclusive")
        if host and not 0 < host < 65536:
            errors.invalid(f"{field}[{index}].hostPort", host, "must be between 1 and 65535, inclusive")
        _check_one_of(port, "protocol", _PROTOCOLS, f"{field}[{index}]", errors)


def _check_host_ports(containers: list[Document], field: str, errors: FieldErrors) -> None:
    taken: set[tuple[Any, ...]] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            key = (port.get("protocol"), port.get("hostIP", ""), port["hostPort"])
            if key in taken:
                text = "/".join(str(part) for part in key)
                errors.duplicate(f"{field}[{index}].ports[{position}].hostPort", text)
            taken.add(key)


def _check_environment(environment: list[Document], field: str, errors: FieldErrors) -> None:
    for index, variable in enumerate(environment):
        name = variable.get("name")
        if not name:
            errors.required(f"{field}[{index}].name")
        elif not _ENV_NAME.fullmatch(name):
            errors.invalid(f"{field}[{index}].name", name, "must be printable characters other than '='")
        source = variable.get("valueFrom")
        if source is None:
            continue
        if variable.get("value"):
            errors.invalid(f"{field}[{index}].valueFrom", "", "may not be specified when `value` is not empty")
        if "fieldRef" in source:
            _check_field_path(
                source["fieldRef"].get("fieldPath"), f"{field}[{index}].valueFrom.fieldRef.fieldPath", errors
            )
        if len(source) != 1:
            why = "may not have more than one field specified at a time" if source else "must specify one source"
            errors.invalid(f"{field}[{index}].valueFrom", "", why)


def _check_field_path(path: str | None, field: str, errors: FieldErrors) -> None:
    if not path:
        errors.required(field)
    elif path not in _FIELD_PATHS and not _KEYED_PATH.fullmatch(path):
        errors.invalid(field, path, f"error converting fieldPath: field label not supported: {path}")


def _check_mounts(mounts: list[Document], place: str, field: str, errors: FieldErrors, volumes: set[Any]) -> None:
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        name, path = mount.get("name"), mount.get(place)
        if not name:
            errors.required(f"{field}[{index}].name")
        elif name not in volumes:
            errors.not_found(f"{field}[{index}].name", name)
        if not path:
            errors.required(f"{field}[{index}].{place}")
        elif path in places:
            errors.invalid(f"{field}[{index}].{place}", path, "must be unique")
        else:
            places.add(path)
        if mount.get("subPath") and mount.get("subPathExpr"):
            errors.invalid(
                f"{field}[{index}].subPathExpr", mount["subPathExpr"], "subPathExpr and subPath are mutually exclusive"
            )
        for name in ("subPath", "subPathExpr"):
            value = mount.get(name)
            if value and (value.startswith("/") or ".." in value.split("/")):
                errors.invalid(f"{field}[{index}].{name}", value, "must be a relative path without '..'")


def _check_probe(probe: Document, name: str, field: str, errors: FieldErrors) -> None:
    handlers = [each for each in _HANDLERS if each in probe]
    if not handlers:
        errors.required(field, "must specify a handler type")
    for extra in handlers[1:]:
        errors.forbidden(f"{field}.{extra}", "may not specify more than 1 handler type")
    if "exec" in probe and not probe["exec"].get("command"):
        errors.required(f"{field}.exec.command")
    for number in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if probe.get(number, 0) < 0:
            errors.invalid(f"{field}.{number}", probe[number], "must be greater than or equal to 0")
    if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
        errors.invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1")


def check_volumes(volumes: list[Document], field: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{field}[{index}]"
        name = volume.get("name")
        if not name:
            errors.required(f"{where}.name")
        elif name in seen:
            errors.duplicate(f"{where}.name", name)
        elif problems := dns_label_problems(name):
            errors.all_invalid(f"{where}.name", name, problems)
        seen.add(name or "")
        sources = sorted((each for each in volume if each != "name"), key=lambda each: each != "emptyDir")
        if not sources:
            errors.required(where, "must specify a volume type")
        for extra in sources[1:]:
            errors.forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
        if sources:
            _check_source(sources[0], volume[sources[0]], f"{where}.{sources[0]}", errors)


_NEEDED = {
    "hostPath": "path",
    "secret": "secretName",
    "configMap": "name",
    "persistentVolumeClaim": "claimName",
    "csi": "driver",
    "nfs": "server",
}


def _check_source(kind: str, source: Document, field: str, errors: FieldErrors) -> None:
    needed = _NEEDED.get(kind)
    if needed and not source.get(needed):
        errors.required(f"{field}.{needed}")
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        errors.invalid(f"{field}.defaultMode", mode, "must be a number between 0 and 0777 (octal), both inclusive")
    if kind == "emptyDir" and "sizeLimit" in source:
        check_amount("sizeLimit", source["sizeLimit"], f"{field}.sizeLimit", errors)
    if kind == "ephemeral":
        template = source.get("volumeClaimTemplate")
        if not template:
            errors.required(f"{field}.volumeClaimTemplate")
        else:
            check_claim_spec(template.get("spec") or {}, f"{field}.volumeClaimTemplate.spec", errors)


def check_claim_spec(spec: Document, field: str, errors: FieldErrors) -> None:
    """What a PersistentVolumeClaim asks for, wherever it is written."""
    modes = spec.get("accessModes")
    if not modes:
        errors.required(f"{field}.accessModes", "at least 1 access mode is required")
    for mode in modes or ():
        if mode not in ACCESS_MODES:
            errors.unsupported(f"{field}.accessModes", mode, ACCESS_MODES)
    if modes and "ReadWriteOncePod" in modes and len(modes) > 1:
        errors.forbidden(f"{field}.accessModes", "may not use ReadWriteOncePod with other access modes")
    storage = (spec.get("resources") or {}).get("requests", {}).get("storage")
    if storage is None:
        errors.required(f"{field}.resources[storage]")
    else:
        quantity = check_amount("storage", storage, f"{field}.resources[storage]", errors)
        if quantity is not None and quantity.nano == 0:
            errors.invalid(f"{field}.resources[storage]", storage, "must be greater than zero")
    if spec.get("storageClassName"):
        errors.all_invalid(
            f"{field}.storageClassName", spec["storageClassName"], subdomain_problems(spec["storageClassName"])
        )
    if spec.get("volumeMode", "Filesystem") not in ("Block", "Filesystem"):
        errors.unsupported(f"{field}.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))
