"""The default evictor: what a profile protects in addition to what the `migration` section protects in all profiles.

Goes in: the arguments of upstream's DefaultEvictor, in their new spelling (podProtections) or in the old one. Comes
out: a guard. It only adds protection: a pod that migrations refuse to move is not planned by any profile. nodeFit is
always on, because no move is planned without a seat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from restow.eviction.protections import PodContext, Protections, eviction_refusal
from restow.model.objects import Duration, Pod, SelectorSpec
from restow.model.problems import Problem, problems_of_readable_members
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert_readable
from restow.planning.arguments import read_selector
from restow.planning.descheduling.policy import DEFAULT_EVICTOR

POLICIES: Final = ("Preferred", "Mandatory")
CLAIMS, BUDGETS, DEVICES = "PodsWithPVC", "PodsWithoutPDB", "PodsWithResourceClaims"
EXTRA: Final = (CLAIMS, BUDGETS, DEVICES)
LOCAL, CRITICAL, DAEMONS, BARE = "PodsWithLocalStorage", "SystemCriticalPods", "DaemonSetPods", "FailedBarePods"
DEFAULTS: Final = (LOCAL, CRITICAL, DAEMONS, BARE)


class _Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    value: int | None = None
    name: str | None = None


class _StorageClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str


class _Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    protected_storage_classes: list[_StorageClass] = []


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    claims: _Claims = msgspec.field(name=CLAIMS, default=_Claims())


class _PodProtections(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    extra_enabled: list[str] = []
    default_disabled: list[str] = []
    config: _Config = _Config()


class DefaultEvictorArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    node_fit: bool = True
    node_selector: str | None = None
    min_replicas: int = 0
    min_pod_age: Duration | None = None
    label_selector: SelectorSpec | None = None
    namespace_label_selector: SelectorSpec | None = None
    priority_threshold: _Threshold | None = None
    no_eviction_policy: str = "Preferred"
    pod_protections: _PodProtections | None = None
    evict_local_storage_pods: bool | None = None
    evict_system_critical_pods: bool | None = None
    evict_daemon_set_pods: bool | None = None
    evict_failed_bare_pods: bool | None = None
    ignore_pvc_pods: bool | None = None
    ignore_pods_without_pdb: bool | None = msgspec.field(name="ignorePodsWithoutPDB", default=None)


_OLD_SPELLING: Final = {
    "evictLocalStoragePods": "evict_local_storage_pods",
    "evictSystemCriticalPods": "evict_system_critical_pods",
    "evictDaemonSetPods": "evict_daemon_set_pods",
    "evictFailedBarePods": "evict_failed_bare_pods",
    "ignorePvcPods": "ignore_pvc_pods",
    "ignorePodsWithoutPDB": "ignore_pods_without_pdb",
}


_PROTECTION_OF_OPTION: Final = {
    "evictLocalStoragePods": LOCAL,
    "evictSystemCriticalPods": CRITICAL,
    "evictFailedBarePods": BARE,
}
"""By option of `migration`: the default protection that it removes."""


def allowed_options(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What valid arguments allow to be evicted: the path of the argument, and the option of `migration` that has to
    allow it, too."""
    disabled = (arguments.get("podProtections") or {}).get("defaultDisabled") or []
    for option, protection in _PROTECTION_OF_OPTION.items():
        if arguments.get(option):
            yield option, option
        if protection in disabled:
            yield f"podProtections.defaultDisabled[{disabled.index(protection)}]", option


class DefaultEvictor(msgspec.Struct, frozen=True):
    protections: Protections

    def refusal_reason(self, pod: Pod, context: PodContext) -> str:
        return eviction_refusal(pod, self.protections, context) or ""

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> DefaultEvictor:
        """Raises WireError with every problem."""
        written, unread = convert_readable(DefaultEvictorArgs, arguments, DEFAULT_EVICTOR)
        invalid = [*_argument_problems(written), *_pod_protection_problems(written)]
        selector = read_selector(written.label_selector, "labelSelector", invalid)
        namespace_selector = read_selector(written.namespace_label_selector, "namespaceLabelSelector", invalid)
        problems = problems_of_readable_members(unread, invalid)
        if problems:
            raise WireError(DEFAULT_EVICTOR, problems)
        threshold, chosen = written.priority_threshold, written.pod_protections or _PodProtections()
        return cls(
            Protections(
                # An option that is not set leaves the decision to the `migration` section.
                evict_all_bare_pods=written.evict_failed_bare_pods is not False,
                evict_local_storage_pods=written.evict_local_storage_pods is not False,
                evict_system_critical_pods=written.evict_system_critical_pods is not False,
                ignore_pvc_pods=bool(written.ignore_pvc_pods) or CLAIMS in chosen.extra_enabled,
                pvc_storage_classes=frozenset(entry.name for entry in chosen.config.claims.protected_storage_classes),
                ignore_pods_without_budget=bool(written.ignore_pods_without_pdb) or BUDGETS in chosen.extra_enabled,
                respect_prefer_no_eviction=written.no_eviction_policy == "Mandatory",
                priority_threshold=threshold.value if threshold else None,
                priority_threshold_name=threshold.name if threshold else None,
                selector=selector,
                namespace_selector=namespace_selector,
                min_replicas=written.min_replicas,
                min_age=parse_duration(written.min_pod_age) if written.min_pod_age else 0.0,
            )
        )


def _argument_problems(written: DefaultEvictorArgs) -> Iterator[Problem]:
    """What is wrong outside of podProtections, although all types are right."""
    if written.min_replicas < 0:
        yield Problem("minReplicas", f"must not be negative, is {written.min_replicas}")
    if not written.node_fit:
        yield Problem("nodeFit", "cannot be switched off: nothing is evicted without a seat")
    if written.node_selector:
        reason = "targets are selected by the scheduler's filters; the policy's nodeSelector says whose pods move"
        yield Problem("nodeSelector", reason)
    if written.evict_daemon_set_pods:
        yield Problem("evictDaemonSetPods", "their DaemonSet would create them again on the same node")
    if written.no_eviction_policy not in POLICIES:
        yield Problem("noEvictionPolicy", f"{written.no_eviction_policy!r} is not one of {', '.join(POLICIES)}")
    threshold = written.priority_threshold
    if threshold is not None and (threshold.value is None) == (threshold.name is None):
        yield Problem("priorityThreshold", "either value or name must be set, not both")


def _pod_protection_problems(written: DefaultEvictorArgs) -> Iterator[Problem]:
    """What is wrong with podProtections, although all types are right."""
    chosen = written.pod_protections
    if chosen is None:
        return
    for field, name in _OLD_SPELLING.items():
        if getattr(written, name) is not None:
            yield Problem(field, "cannot be mixed with podProtections")
    for field, names, known in (
        ("extraEnabled", chosen.extra_enabled, EXTRA),
        ("defaultDisabled", chosen.default_disabled, DEFAULTS),
    ):
        for number, name in enumerate(names):
            if name not in known:
                yield Problem(f"podProtections.{field}[{number}]", f"{name!r} is not one of {', '.join(known)}")
    if chosen.config.claims.protected_storage_classes and CLAIMS not in chosen.extra_enabled:
        yield Problem(f"podProtections.config.{CLAIMS}", f"has no effect unless extraEnabled contains {CLAIMS}")
    if DAEMONS in chosen.default_disabled:
        yield Problem("podProtections.defaultDisabled", "DaemonSets would create their pods again on the same node")
