"""Rules every object's metadata obeys: names, labels, annotations, owners, finalizers, and what may never change."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.model.names import dns_label_problems, label_value_problems, qualified_name_problems, subdomain_problems
from restow.model.objects import Document

NameRule = Callable[[str], tuple[str, ...]]

MAX_ANNOTATIONS = 256 * 1024
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_FOREGROUND = ("orphan", "foregroundDeletion")
_STANDARD_FINALIZERS = ("kubernetes", *_FOREGROUND)
_ANY_FINALIZER = ("PodDisruptionBudget", "Lease", "Event")
_NO_OWNERS = {("v1", "Event")}


def resource_name_problems(name: str) -> tuple[str, ...]:
    """Problems of a DNS label that starts with a letter (RFC 1035): resources, kinds and versions."""
    problems: tuple[str, ...] = () if len(name) <= 63 else ("must be no longer than 63 characters",)
    if not _DNS_1035.fullmatch(name):
        problems += ("must be lower case letters, digits or '-', start with a letter and end with a letter or digit",)
    return problems


def path_segment_problems(name: str) -> tuple[str, ...]:
    """Problems of a name that only has to fit into a URL path (RBAC objects)."""
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{character}'" for character in "/%" if character in name)


def _anything(name: str) -> tuple[str, ...]:
    """Upstream never looks at the names of some kinds."""
    return ()


_NAME_RULES: dict[tuple[str, str], NameRule] = {
    ("", "Namespace"): dns_label_problems,
    ("", "Service"): dns_label_problems,
    ("apps", "StatefulSet"): dns_label_problems,
    ("", "Event"): _anything,
    ("events.k8s.io", "Event"): _anything,
    ("policy", "PodDisruptionBudget"): _anything,
    ("rbac.authorization.k8s.io", "Role"): path_segment_problems,
    ("rbac.authorization.k8s.io", "ClusterRole"): path_segment_problems,
    ("rbac.authorization.k8s.io", "RoleBinding"): path_segment_problems,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): path_segment_problems,
}


@lru_cache(maxsize=16384)
def name_problems(name: str, group: str, kind: str) -> tuple[str, ...]:
    return _NAME_RULES.get((group, kind), subdomain_problems)(name)


def check_metadata(metadata: Document, errors: FieldErrors, *, group: str, kind: str) -> None:
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if prefix and (problems := name_problems(_as_name(prefix), group, kind)):
        errors.all_invalid("metadata.generateName", prefix, problems)
        if not name:
            errors.all_invalid("metadata.name", prefix, problems)
    if name:
        if problems := name_problems(name, group, kind):
            errors.all_invalid("metadata.name", name, problems)
    elif not prefix:
        errors.required("metadata.name", "name or generateName is required")
    check_labels(metadata.get("labels"), "metadata.labels", errors)
    if metadata.get("annotations"):
        check_annotations(metadata["annotations"], "metadata.annotations", errors)
    if metadata.get("ownerReferences"):
        _check_owners(metadata["ownerReferences"], errors)
    if metadata.get("finalizers"):
        _check_finalizers(metadata["finalizers"], errors, any_name=not kind or kind in _ANY_FINALIZER)


def _as_name(prefix: str) -> str:
    """A prefix may end with a dash, because a suffix follows."""
    return prefix[:-1] + "a" if prefix.endswith("-") and len(prefix) > 1 else prefix


def check_labels(labels: Document | None, field: str, errors: FieldErrors) -> None:
    for key, value in labels.items() if labels else ():
        if problems := qualified_name_problems(key):
            errors.all_invalid(field, key, problems)
        if problems := label_value_problems(value):
            errors.all_invalid(field, value, problems)


def check_annotations(annotations: Document, field: str, errors: FieldErrors) -> None:
    total = 0
    for key, value in annotations.items():
        if problems := qualified_name_problems(key.lower()):
            errors.all_invalid(field, key, problems)
        total += len(key) + len(value)
    if total > MAX_ANNOTATIONS:
        errors.too_long(field, MAX_ANNOTATIONS)


def _check_owners(owners: list[Document], errors: FieldErrors) -> None:
    controller = ""
    field = "metadata.ownerReferences"  # upstream names no index here
    for owner in owners:
        version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        for name, word in (("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid")):
            if not owner.get(name):
                errors.invalid(f"{field}.{name}", "", f"{word} must not be empty")
        if (version, kind) in _NO_OWNERS:
            errors.invalid(field, f"{version}, Kind={kind}", "is disallowed from being an owner")
        if owner.get("controller"):
            if controller:
                why = f"only one owner may be the controller, found {controller!r} and {owner.get('name')!r}"
                errors.invalid(field, owners, why)
            controller = owner.get("name", "")


def _check_finalizers(finalizers: list[str], errors: FieldErrors, *, any_name: bool) -> None:
    """Qualified names; most built-in kinds refuse unqualified ones other than the server's own."""
    for index, finalizer in enumerate(finalizers):
        errors.all_invalid("metadata.finalizers", finalizer, qualified_name_problems(finalizer))
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS and not any_name:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            errors.invalid(f"metadata.finalizers[{index}]", finalizer, why)
    if all(each in finalizers for each in _FOREGROUND):
        errors.invalid("metadata.finalizers", finalizers, "orphan and foregroundDeletion cannot be set together")


def check_metadata_update(new: Document, old: Document, errors: FieldErrors) -> None:
    """Names never change; the server guards uid and times itself."""
    for name in ("name", "namespace"):
        errors.immutable(f"metadata.{name}", old.get(name), new.get(name))
