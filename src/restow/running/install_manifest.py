"""The objects that `restow install` prints, and what may conflict with them in a cluster.

Takes a namespace, an image and a configuration; returns documents: namespace, definitions, service account, roles with
the least rights that the components need, admission policies that guard queues, configuration and Deployment.
`inspect_cluster` finds definitions of the same names that were installed by others, which are then left out, and
controllers that would write the same objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec
import yaml

from restow.client.verbs import Client
from restow.defaults import NAME, PORT
from restow.migration.stop_switch import STOP_NAME
from restow.model import kinds
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import Kind
from restow.model.object_key import key_of
from restow.model.objects import Document
from restow.ports import ApiError
from restow.queues.admission_parameters import admission_parameters
from restow.queues.admission_policies import CEILINGS_NAME, admission_policy_documents
from restow.running.configuration import read_configuration

CONFIGURATION_KEY: Final = "restow.yaml"
_PART_OF: Final = "app.kubernetes.io/part-of"
LABELS: Final = {"app.kubernetes.io/name": NAME, _PART_OF: NAME}
_CONFLICTING_IMAGES: Final = {
    "vc-scheduler": "Volcano's scheduler, which also writes PodGroups",
    "vc-controller-manager": "Volcano's controller manager, which also writes Queues and PodGroups",
    "koord-descheduler": "Koordinator's descheduler, which also processes PodMigrationJobs",
}


class _Readable(yaml.SafeDumper):
    """Readable YAML: no anchors, and multi-line strings as block scalars."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _represent_text)


def to_yaml(documents: Iterable[Document]) -> str:
    """Documents for `kubectl apply`."""
    return str(yaml.dump_all(documents, Dumper=_Readable, sort_keys=False))


# --- rights -------------------------------------------------------------------------------------------------


class Permission(msgspec.Struct, frozen=True):
    """Verbs on kinds, or on one of their subresources; `names` limits them to objects of these names."""

    kinds: tuple[Kind[Any], ...]
    verbs: tuple[str, ...]
    subresource: str = ""
    names: tuple[str, ...] = ()

    def rules(self) -> Iterator[Document]:
        for group in dict.fromkeys(kind.group for kind in self.kinds):
            plurals = [kind.plural for kind in self.kinds if kind.group == group]
            resources = [f"{plural}/{self.subresource}" if self.subresource else plural for plural in plurals]
            named = {"resourceNames": list(self.names)} if self.names else {}
            yield {"apiGroups": [group], "resources": resources, **named, "verbs": list(self.verbs)}


READ: Final = ("get", "list", "watch")
FOLLOW: Final = ("list", "watch")

CLUSTER_PERMISSIONS: Final = (
    Permission((kinds.POD, kinds.NODE, kinds.NAMESPACE, *kinds.OWN_KINDS), READ),
    Permission(
        (
            kinds.PERSISTENT_VOLUME,
            kinds.PERSISTENT_VOLUME_CLAIM,
            kinds.REPLICATION_CONTROLLER,
            kinds.REPLICA_SET,
            kinds.DEPLOYMENT,
            kinds.STATEFUL_SET,
            kinds.DAEMON_SET,
            kinds.JOB,
            kinds.POD_DISRUPTION_BUDGET,
            kinds.POD_UNAVAILABLE_BUDGET,
            kinds.PRIORITY_CLASS,
            kinds.STORAGE_CLASS,
            kinds.CSI_NODE,
            kinds.CSI_DRIVER,
            kinds.CSI_STORAGE_CAPACITY,
            kinds.VOLUME_ATTACHMENT,
        ),
        FOLLOW,
    ),
    Permission((kinds.POD,), ("create",), "binding"),
    Permission((kinds.POD,), ("create",), "eviction"),
    Permission(
        (kinds.POD, kinds.POD_GROUP, kinds.RESERVATION, kinds.POD_MIGRATION_JOB, kinds.QUEUE), ("patch",), "status"
    ),
    Permission((kinds.PERSISTENT_VOLUME, kinds.PERSISTENT_VOLUME_CLAIM), ("patch",)),
    Permission((kinds.RESERVATION,), ("create", "patch", "delete")),
    Permission((kinds.POD_MIGRATION_JOB,), ("create", "patch", "delete")),
    Permission((kinds.EVENT,), ("create", "patch")),
    Permission((kinds.NODE_METRICS, kinds.POD_METRICS), ("list",)),
    Permission((kinds.TOKEN_REVIEW, kinds.SUBJECT_ACCESS_REVIEW), ("create",)),
)
"""Rights of the components in the whole cluster."""

NAMESPACE_PERMISSIONS: Final = (
    Permission((kinds.LEASE,), ("get", "create", "update")),
    Permission((kinds.CONFIG_MAP,), READ, names=(STOP_NAME,)),
    Permission((kinds.CONFIG_MAP,), ("get", "patch"), names=(CEILINGS_NAME,)),
)
"""Rights of the components in their own namespace."""

# Added to the cluster roles `view` and `edit`. Creating jobs is not among it, because a job can evict any pod, nor is
# creating reservations, because no ResourceQuota counts them.
AGGREGATED_PERMISSIONS: Final = {
    "view": (Permission((kinds.RESERVATION, kinds.POD_GROUP), READ),),
    "edit": (Permission((kinds.POD_GROUP,), ("create", "update", "patch", "delete")),),
}


# --- the documents ----------------------------------------------------------------------------------------------------


CONFIGURATION: Final = """\
scheduler: {schedulerNames: [restow]}
descheduler: {}
migration: {}
reservations: {}
queues: {}
"""


def install_documents(
    *, namespace: str, image: str, without: Collection[str] = (), configuration: str = CONFIGURATION
) -> list[Document]:
    """All documents, in the order in which they must be applied; `without` are names of definitions to leave out.
    Raises WireError for a bad configuration."""
    parsed = read_configuration(configuration.encode(), CONFIGURATION_KEY)
    ceilings = parsed.read_queues().ceilings
    definitions = [crd for crd in custom_resource_definitions() if crd["metadata"]["name"] not in without]
    return [
        _document("v1", "Namespace", namespace),
        *map(_labelled, definitions),
        _document("v1", "ServiceAccount", NAME, namespace),
        *_roles(namespace),
        _document("v1", "ConfigMap", CEILINGS_NAME, namespace, data=admission_parameters(ceilings)),
        *map(_labelled, admission_policy_documents(namespace)),
        _document("v1", "ConfigMap", NAME, namespace, data={CONFIGURATION_KEY: configuration}),
        _deployment(namespace, image),
    ]


def _document(api_version: str, kind: str, name: str, namespace: str | None = None, **more: Any) -> Document:
    metadata: Document = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(LABELS)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def _labelled(document: Document) -> Document:
    return {**document, "metadata": {**document["metadata"], "labels": dict(LABELS)}}


def _roles(namespace: str) -> Iterator[Document]:
    authorization = "rbac.authorization.k8s.io/v1"
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    for kind, role_namespace, permissions in (
        ("ClusterRole", None, CLUSTER_PERMISSIONS),
        ("Role", namespace, NAMESPACE_PERMISSIONS),
    ):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME}
        yield _document(authorization, kind, NAME, role_namespace, rules=_rules(permissions))
        yield _document(authorization, f"{kind}Binding", NAME, role_namespace, roleRef=reference, subjects=[subject])
    for role, allowed in AGGREGATED_PERMISSIONS.items():
        document = _document(authorization, "ClusterRole", f"{NAME}-{role}", rules=_rules(allowed))
        document["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{role}"] = "true"
        yield document


def _rules(permissions: Iterable[Permission]) -> list[Document]:
    return [rule for permission in permissions for rule in permission.rules()]


def _deployment(namespace: str, image: str) -> Document:
    selector = {"app.kubernetes.io/name": NAME}
    return _document(
        "apps/v1",
        "Deployment",
        NAME,
        namespace,
        spec={
            "replicas": 2,
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod_spec(image, selector)},
        },
    )


def _pod_spec(image: str, selector: Document) -> Document:
    return {
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector},
            }
        ],
        "containers": [_container(image)],
        "volumes": [{"name": "configuration", "configMap": {"name": NAME}}],
    }


def _container(image: str) -> Document:
    return {
        "name": NAME,
        "image": image,
        "args": ["run", "--config", f"/etc/restow/{CONFIGURATION_KEY}", "--log-format", "json"],
        "ports": [{"name": "http", "containerPort": PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "initialDelaySeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/restow", "readOnly": True}],
    }


# --- conflicts --------------------------------------------------------------------------------------------------------


class ForeignInstallation(msgspec.Struct, frozen=True):
    """What others have installed in a cluster that conflicts with Restow."""

    definitions: tuple[str, ...] = ()
    """Names of definitions that have the names of ours."""
    controllers: tuple[str, ...] = ()
    """Controllers that write the same objects, one sentence each."""


async def inspect_cluster(client: Client) -> ForeignInstallation:
    """Find conflicts in a cluster. Raises ApiError."""
    ours = {kind.qualified_name for kind in kinds.OWN_KINDS}
    foreign = [
        crd.metadata.name
        for crd in (await client.list(kinds.CUSTOM_RESOURCE_DEFINITION)).items
        if crd.metadata.name in ours and (crd.metadata.labels or {}).get(_PART_OF) != NAME
    ]
    return ForeignInstallation(tuple(sorted(foreign)), tuple(await _conflicting_controllers(client)))


async def _conflicting_controllers(client: Client) -> list[str]:
    try:
        deployments = (await client.list(kinds.DEPLOYMENT)).items
    except ApiError:
        return []  # without the right to list Deployments, no conflict is reported
    documents = []
    for deployment in sorted(deployments, key=key_of):
        for container in deployment.spec.template.spec.containers or ():
            image = (container.image or "").rpartition("/")[2].partition(":")[0]
            if image in _CONFLICTING_IMAGES:
                name = f"{deployment.metadata.namespace}/{deployment.metadata.name}"
                documents.append(f"Deployment {name} is {_CONFLICTING_IMAGES[image]}")
    return documents
