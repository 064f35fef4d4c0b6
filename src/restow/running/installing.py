"""`restow install`: everything a cluster needs to run Restow, as documents; and what is in the way there.

Goes in: a namespace, an image and a configuration. Comes out: namespace, definitions, service account, roles with the
least that the components need, the policies that guard queues, configuration and Deployment. A cluster may be looked at
first: definitions of the same names that somebody else installed are left out, and controllers that would be a second
master for the same objects are named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import msgspec
import yaml

from restow.client.verbs import Client
from restow.defaults import NAME, PORT
from restow.migration.stop import STOP_NAME
from restow.model import kinds
from restow.model.cluster.names import key_of
from restow.model.crds import custom_resource_definitions
from restow.model.kinds import Kind
from restow.model.objects import Document
from restow.ports import ApiError
from restow.queues.admission import CEILINGS, policy_documents
from restow.queues.parameters import parameters
from restow.running.configuration import read_configuration

CONFIGURATION_KEY: Final = "restow.yaml"
_PART_OF: Final = "app.kubernetes.io/part-of"
LABELS: Final = {"app.kubernetes.io/name": NAME, _PART_OF: NAME}
_MASTERS: Final = {
    "vc-scheduler": "Volcano's scheduler, which also writes PodGroups",
    "vc-controller-manager": "Volcano's controllers, which also write Queues and PodGroups",
    "koord-descheduler": "Koordinator's descheduler, which also carries out PodMigrationJobs",
}


class _Readable(yaml.SafeDumper):
    """YAML for people: everything in its place, texts of several lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def manifest(made: Iterable[Document]) -> str:
    """Documents for `kubectl apply`."""
    return str(yaml.dump_all(made, Dumper=_Readable, sort_keys=False))


# --- what they may do -------------------------------------------------------------------------------------------------


class Permission(msgspec.Struct, frozen=True):
    """These verbs on these kinds, or on a subresource of them."""

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

EVERYWHERE: Final = (
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
"""What the components need in the whole cluster."""

AT_HOME: Final = (
    Permission((kinds.LEASE,), ("get", "create", "update")),
    Permission((kinds.CONFIG_MAP,), READ, names=(STOP_NAME,)),
    Permission((kinds.CONFIG_MAP,), ("get", "patch"), names=(CEILINGS,)),
)
"""What they need in their own namespace."""

# Jobs evict pods anywhere, and reservations hold room that no ResourceQuota counts: who may edit a namespace may
# look at them, and no more.
PEOPLE: Final = {
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


def documents(
    *, namespace: str, image: str, without: Collection[str] = (), configuration: str = CONFIGURATION
) -> list[Document]:
    """Everything to be applied, in order; `without` are names of definitions to leave out. Raises WireError."""
    written = read_configuration(configuration.encode(), CONFIGURATION_KEY)
    ceilings = written.read_queues().ceilings
    definitions = [one for one in custom_resource_definitions() if one["metadata"]["name"] not in without]
    return [
        _document("v1", "Namespace", namespace),
        *map(_ours, definitions),
        _document("v1", "ServiceAccount", NAME, namespace),
        *_roles(namespace),
        _document("v1", "ConfigMap", CEILINGS, namespace, data=parameters(ceilings)),
        *(_ours(one) for one in policy_documents(namespace)),
        _document("v1", "ConfigMap", NAME, namespace, data={CONFIGURATION_KEY: configuration}),
        _deployment(namespace, image),
    ]


def _document(api_version: str, kind: str, name: str, namespace: str | None = None, **more: Any) -> Document:
    metadata: Document = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(LABELS)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def _ours(document: Document) -> Document:
    return {**document, "metadata": {**document["metadata"], "labels": dict(LABELS)}}


def _roles(namespace: str) -> Iterator[Document]:
    authorization = "rbac.authorization.k8s.io/v1"
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    for kind, where, permissions in (("ClusterRole", None, EVERYWHERE), ("Role", namespace, AT_HOME)):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME}
        yield _document(authorization, kind, NAME, where, rules=_rules(permissions))
        yield _document(authorization, f"{kind}Binding", NAME, where, roleRef=reference, subjects=[subject])
    for role, allowed in PEOPLE.items():
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


# --- what is in the way -----------------------------------------------------------------------------------------------


class Found(msgspec.Struct, frozen=True):
    """What a cluster has already."""

    definitions: tuple[str, ...] = ()
    """Definitions of our names that we did not make."""
    masters: tuple[str, ...] = ()
    """Controllers that write the same objects, one sentence each."""


async def look(client: Client) -> Found:
    """Look at a cluster. Raises ApiError."""
    ours = {kind.qualified_name for kind in kinds.OWN_KINDS}
    foreign = [
        one.metadata.name
        for one in (await client.list(kinds.CUSTOM_RESOURCE_DEFINITION)).items
        if one.metadata.name in ours and (one.metadata.labels or {}).get(_PART_OF) != NAME
    ]
    return Found(tuple(sorted(foreign)), tuple(await _masters(client)))


async def _masters(client: Client) -> list[str]:
    try:
        deployments = (await client.list(kinds.DEPLOYMENT)).items
    except ApiError:
        return []  # who may not look has been told nothing wrong
    found = []
    for one in sorted(deployments, key=key_of):
        for container in one.spec.template.spec.containers or ():
            image = (container.image or "").rpartition("/")[2].partition(":")[0]
            if image in _MASTERS:
                found.append(f"Deployment {one.metadata.namespace}/{one.metadata.name} is {_MASTERS[image]}")
    return found
