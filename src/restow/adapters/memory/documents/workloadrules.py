"""Rules for the objects that make pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob."""

from __future__ import annotations

from typing import Any

from restow.adapters.memory.documents.affinityrules import check_selector
from restow.adapters.memory.documents.containerrules import check_claim_spec
from restow.adapters.memory.documents.findings import Findings
from restow.adapters.memory.documents.podrules import check_template
from restow.model.objects import Document
from restow.model.selectors import SelectorError, label_selector

_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
_SET_COUNTS = ("replicas", "minReadySeconds")
_JOB_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "ttlSecondsAfterFinished",
)


def check_counts(spec: Document, names: tuple[str, ...], field: str, found: Findings) -> None:
    for name in names:
        if spec.get(name) is not None and spec[name] < 0:
            found.invalid(f"{field}.{name}", spec[name], "must be greater than or equal to 0")


def check_int_or_percent(value: Any, field: str, found: Findings) -> int | None:
    """A non-negative number or a percentage up to any size; the number, or None for percentages and mistakes."""
    if isinstance(value, int):
        if value < 0:
            found.invalid(field, value, "must be greater than or equal to 0")
        return value
    if not (isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()):
        found.invalid(field, value, "must be an integer or a percentage such as '25%'")
    return None


def _check_at_most_all(value: Any, field: str, found: Findings) -> None:
    if isinstance(value, str) and value[:-1].isdigit() and int(value[:-1]) > 100:
        found.invalid(field, value, "must not be greater than 100%")


def _is_zero(value: Any) -> bool:
    return value in (0, "0%", None)


def _check_own_selector(spec: Document, kind: str, found: Findings) -> None:
    """A workload selects the pods of its own template, and not everything."""
    selector = spec.get("selector")
    check_selector(selector, "spec.selector", found)
    if selector is None and kind != "daemonset":
        found.required("spec.selector")
    elif selector is not None and not selector:
        found.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
        return
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    try:
        matches = label_selector(selector).matches(labels)
    except SelectorError as error:
        if kind != "daemonset":  # where upstream is content with what it said about the parts
            found.invalid("spec.selector", selector, str(error))
        return
    if not matches:
        found.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def check_deployment(doc: Document, old: Document | None, found: Findings) -> None:
    spec = doc.get("spec") or {}
    check_counts(spec, _COUNTS, "spec", found)
    _check_own_selector(spec, "deployment", found)
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate" and rolling is not None:
        found.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate":
        _check_rolling(rolling or {}, "spec.strategy.rollingUpdate", found)
    elif kind != "Recreate":
        found.unsupported("spec.strategy", strategy, ("Recreate", "RollingUpdate"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        found.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    check_template(spec.get("template"), "spec.template", found)
    _check_same_selector(spec, old, found)


def _check_rolling(rolling: Document, field: str, found: Findings) -> None:
    for name in ("maxUnavailable", "maxSurge"):
        if name in rolling:
            check_int_or_percent(rolling[name], f"{field}.{name}", found)
    _check_at_most_all(rolling.get("maxUnavailable"), f"{field}.maxUnavailable", found)
    if _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
        unavailable = rolling.get("maxUnavailable", 0)
        found.invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")


def _check_same_selector(spec: Document, old: Document | None, found: Findings) -> None:
    if old is not None:
        found.immutable("spec.selector", (old.get("spec") or {}).get("selector"), spec.get("selector"))


def check_replica_set(doc: Document, old: Document | None, found: Findings) -> None:
    spec = doc.get("spec") or {}
    check_counts(spec, _COUNTS, "spec", found)
    _check_own_selector(spec, "replicaset", found)
    check_template(spec.get("template"), "spec.template", found)
    _check_same_selector(spec, old, found)


_SET_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def check_stateful_set(doc: Document, old: Document | None, found: Findings) -> None:
    spec = doc.get("spec") or {}
    check_counts(spec, _SET_COUNTS, "spec", found)
    _check_own_selector(spec, "statefulset", found)
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        found.invalid("spec.podManagementPolicy", policy or "", "must be 'OrderedReady' or 'Parallel'")
    strategy = (spec.get("updateStrategy") or {}).get("type")
    if strategy not in ("RollingUpdate", "OnDelete"):
        found.invalid("spec.updateStrategy", spec.get("updateStrategy"), "must be 'RollingUpdate' or 'OnDelete'")
    for name, value in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
        if value not in ("Retain", "Delete"):
            found.unsupported(f"spec.persistentVolumeClaimRetentionPolicy.{name}", value, ("Delete", "Retain"))
    templates = spec.get("volumeClaimTemplates", ())
    names = [(claim.get("metadata") or {}).get("name", "") for claim in templates]
    check_template(spec.get("template"), "spec.template", found, claims=names)
    for index, claim in enumerate(templates):
        check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec", found)
    if old is not None:
        _check_set_update(spec, old.get("spec") or {}, found)


def _check_set_update(spec: Document, before: Document, found: Findings) -> None:
    others = [name for name in {**spec, **before} if name not in _SET_CHANGEABLE]
    if any(spec.get(name) != before.get(name) for name in others):
        allowed = ", ".join(f"'{name}'" for name in _SET_CHANGEABLE[:-1])
        why = f"updates to statefulset spec for fields other than {allowed} and '{_SET_CHANGEABLE[-1]}' are forbidden"
        found.forbidden("spec", why)


def check_daemon_set(doc: Document, old: Document | None, found: Findings) -> None:
    spec = doc.get("spec") or {}
    check_counts(spec, _COUNTS, "spec", found)
    _check_own_selector(spec, "daemonset", found)
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        _check_rolling(rolling, "spec.updateStrategy.rollingUpdate", found)
        if not _is_zero(rolling.get("maxUnavailable")) and not _is_zero(rolling.get("maxSurge")):
            why = "may not be set when maxUnavailable is non-zero"
            found.invalid("spec.updateStrategy.rollingUpdate.maxSurge", rolling.get("maxSurge"), why)
    elif strategy.get("type") != "OnDelete":
        found.unsupported("spec.updateStrategy", strategy, ("OnDelete", "RollingUpdate"))
    check_template(spec.get("template"), "spec.template", found)
    _check_same_selector(spec, old, found)


def check_job(doc: Document, old: Document | None, found: Findings) -> None:
    spec = doc.get("spec") or {}
    _check_job_spec(spec, "spec", found)
    _check_own_selector(spec, "job", found)
    if not spec.get("manualSelector") and spec.get("selector"):
        uid = {"batch.kubernetes.io/controller-uid": doc["metadata"].get("uid")}
        if spec["selector"] != {"matchLabels": uid}:
            found.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")
    if old is not None:
        _check_job_update(spec, old, found)


def _check_job_spec(spec: Document, field: str, found: Findings) -> None:
    check_counts(spec, _JOB_COUNTS, field, found)
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        found.unsupported(f"{field}.completionMode", mode, ("Indexed", "NonIndexed"))
    elif mode == "Indexed" and spec.get("completions") is None:
        found.required(f"{field}.completions", "when completion mode is Indexed")
    if "backoffLimitPerIndex" in spec and mode != "Indexed":
        found.invalid(f"{field}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode")
    check_template(spec.get("template"), f"{field}.template", found, restart=("Never", "OnFailure"))
    if spec.get("podFailurePolicy") and (spec.get("template") or {}).get("spec", {}).get("restartPolicy") != "Never":
        policy = (spec.get("template") or {}).get("spec", {}).get("restartPolicy")
        why = "only 'Never' is supported when `podFailurePolicy` is specified"
        found.invalid(f"{field}.template.spec.restartPolicy", policy, why)


_TEMPLATE_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _check_job_update(spec: Document, old: Document, found: Findings) -> None:
    before = old.get("spec") or {}
    for name in (
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        found.immutable(f"spec.{name}", before.get(name), spec.get(name))
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        found.immutable("spec.completions", before.get("completions"), spec.get("completions"))
    new, was = spec.get("template"), before.get("template")
    if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
        # The scheduling directives of a job that never started may still change; the rest of its template may not.
        new, was = _apart_from_scheduling(new), _apart_from_scheduling(was)
    found.immutable("spec.template", was, new)


def _apart_from_scheduling(template: Document | None) -> Document:
    template = template or {}
    spec = {name: value for name, value in (template.get("spec") or {}).items() if name not in _TEMPLATE_SCHEDULING}
    return {"spec": spec}


def check_cron_job(doc: Document, old: Document | None, found: Findings) -> None:
    spec = doc.get("spec") or {}
    schedule = spec.get("schedule")
    if not schedule:
        found.required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        found.invalid("spec.schedule", schedule, f"expected exactly 5 fields, found {len(schedule.split())}")
    elif "TZ=" in schedule:
        found.invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    if spec.get("concurrencyPolicy") not in ("Allow", "Forbid", "Replace"):
        found.unsupported("spec.concurrencyPolicy", spec.get("concurrencyPolicy") or "", ("Allow", "Forbid", "Replace"))
    check_counts(
        spec, ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec", found
    )
    _check_job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec", found)
    if len(doc["metadata"].get("name") or "") > 52:
        found.invalid("metadata.name", doc["metadata"]["name"], "must be no longer than 52 characters")


def check_budget(doc: Document, old: Document | None, found: Findings) -> None:
    spec = doc.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        found.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            check_int_or_percent(value, f"spec.{name}", found)
            _check_at_most_all(value, f"spec.{name}", found)
    check_selector(spec.get("selector"), "spec.selector", found)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        found.unsupported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))
