"""Rules for the objects that make pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob."""

from __future__ import annotations

from typing import Any

from restow.adapters.memory.documents.affinity_rules import check_selector
from restow.adapters.memory.documents.container_rules import check_claim_spec
from restow.adapters.memory.documents.field_errors import FieldErrors
from restow.adapters.memory.documents.pod_rules import check_template
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


def check_counts(spec: Document, names: tuple[str, ...], field: str, errors: FieldErrors) -> None:
    for name in names:
        if spec.get(name) is not None and spec[name] < 0:
            errors.invalid(f"{field}.{name}", spec[name], "must be greater than or equal to 0")


def check_int_or_percent(value: Any, field: str, errors: FieldErrors) -> int | None:
    """A non-negative number or a percentage up to any size; the number, or None for percentages and mistakes."""
    if isinstance(value, int):
        if value < 0:
            errors.invalid(field, value, "must be greater than or equal to 0")
        return value
    if not (isinstance(value, str) and value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()):
        errors.invalid(field, value, "must be an integer or a percentage such as '25%'")
    return None


def _check_at_most_all(value: Any, field: str, errors: FieldErrors) -> None:
    if isinstance(value, str) and value[:-1].isdigit() and int(value[:-1]) > 100:
        errors.invalid(field, value, "must not be greater than 100%")


def _is_zero(value: Any) -> bool:
    return value in (0, "0%", None)


def _check_own_selector(spec: Document, kind: str, errors: FieldErrors) -> None:
    """A workload selects the pods of its own template, and not everything."""
    selector = spec.get("selector")
    check_selector(selector, "spec.selector", errors)
    if selector is None and kind != "daemonset":
        errors.required("spec.selector")
    elif selector is not None and not selector:
        errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
        return
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    try:
        matches = label_selector(selector).matches(labels)
    except SelectorError as error:
        if kind != "daemonset":  # where upstream is content with what it said about the parts
            errors.invalid("spec.selector", selector, str(error))
        return
    if not matches:
        errors.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def check_deployment(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    check_counts(spec, _COUNTS, "spec", errors)
    _check_own_selector(spec, "deployment", errors)
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate" and rolling is not None:
        errors.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate":
        _check_rolling(rolling or {}, "spec.strategy.rollingUpdate", errors)
    elif kind != "Recreate":
        errors.unsupported("spec.strategy", strategy, ("Recreate", "RollingUpdate"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    check_template(spec.get("template"), "spec.template", errors)
    _check_same_selector(spec, old, errors)


def _check_rolling(rolling: Document, field: str, errors: FieldErrors) -> None:
    for name in ("maxUnavailable", "maxSurge"):
        if name in rolling:
            check_int_or_percent(rolling[name], f"{field}.{name}", errors)
    _check_at_most_all(rolling.get("maxUnavailable"), f"{field}.maxUnavailable", errors)
    if _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
        unavailable = rolling.get("maxUnavailable", 0)
        errors.invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")


def _check_same_selector(spec: Document, old: Document | None, errors: FieldErrors) -> None:
    if old is not None:
        errors.immutable("spec.selector", (old.get("spec") or {}).get("selector"), spec.get("selector"))


def check_replica_set(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    check_counts(spec, _COUNTS, "spec", errors)
    _check_own_selector(spec, "replicaset", errors)
    check_template(spec.get("template"), "spec.template", errors)
    _check_same_selector(spec, old, errors)


_SET_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


def check_stateful_set(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    check_counts(spec, _SET_COUNTS, "spec", errors)
    _check_own_selector(spec, "statefulset", errors)
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        errors.invalid("spec.podManagementPolicy", policy or "", "must be 'OrderedReady' or 'Parallel'")
    strategy = (spec.get("updateStrategy") or {}).get("type")
    if strategy not in ("RollingUpdate", "OnDelete"):
        errors.invalid("spec.updateStrategy", spec.get("updateStrategy"), "must be 'RollingUpdate' or 'OnDelete'")
    for name, value in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
        if value not in ("Retain", "Delete"):
            errors.unsupported(f"spec.persistentVolumeClaimRetentionPolicy.{name}", value, ("Delete", "Retain"))
    templates = spec.get("volumeClaimTemplates", ())
    names = [(claim.get("metadata") or {}).get("name", "") for claim in templates]
    check_template(spec.get("template"), "spec.template", errors, claims=names)
    for index, claim in enumerate(templates):
        check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec", errors)
    if old is not None:
        _check_set_update(spec, old.get("spec") or {}, errors)


def _check_set_update(spec: Document, before: Document, errors: FieldErrors) -> None:
    others = [name for name in {**spec, **before} if name not in _SET_CHANGEABLE]
    if any(spec.get(name) != before.get(name) for name in others):
        allowed = ", ".join(f"'{name}'" for name in _SET_CHANGEABLE[:-1])
        why = f"updates to statefulset spec for fields other than {allowed} and '{_SET_CHANGEABLE[-1]}' are forbidden"
        errors.forbidden("spec", why)


def check_daemon_set(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    check_counts(spec, _COUNTS, "spec", errors)
    _check_own_selector(spec, "daemonset", errors)
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        _check_rolling(rolling, "spec.updateStrategy.rollingUpdate", errors)
        if not _is_zero(rolling.get("maxUnavailable")) and not _is_zero(rolling.get("maxSurge")):
            why = "may not be set when maxUnavailable is non-zero"
            errors.invalid("spec.updateStrategy.rollingUpdate.maxSurge", rolling.get("maxSurge"), why)
    elif strategy.get("type") != "OnDelete":
        errors.unsupported("spec.updateStrategy", strategy, ("OnDelete", "RollingUpdate"))
    check_template(spec.get("template"), "spec.template", errors)
    _check_same_selector(spec, old, errors)


def check_job(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    _check_job_spec(spec, "spec", errors)
    _check_own_selector(spec, "job", errors)
    if not spec.get("manualSelector") and spec.get("selector"):
        uid = {"batch.kubernetes.io/controller-uid": doc["metadata"].get("uid")}
        if spec["selector"] != {"matchLabels": uid}:
            errors.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")
    if old is not None:
        _check_job_update(spec, old, errors)


def _check_job_spec(spec: Document, field: str, errors: FieldErrors) -> None:
    check_counts(spec, _JOB_COUNTS, field, errors)
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errors.unsupported(f"{field}.completionMode", mode, ("Indexed", "NonIndexed"))
    elif mode == "Indexed" and spec.get("completions") is None:
        errors.required(f"{field}.completions", "when completion mode is Indexed")
    if "backoffLimitPerIndex" in spec and mode != "Indexed":
        errors.invalid(
            f"{field}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode"
        )
    check_template(spec.get("template"), f"{field}.template", errors, restart=("Never", "OnFailure"))
    if spec.get("podFailurePolicy") and (spec.get("template") or {}).get("spec", {}).get("restartPolicy") != "Never":
        policy = (spec.get("template") or {}).get("spec", {}).get("restartPolicy")
        why = "only 'Never' is supported when `podFailurePolicy` is specified"
        errors.invalid(f"{field}.template.spec.restartPolicy", policy, why)


_TEMPLATE_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _check_job_update(spec: Document, old: Document, errors: FieldErrors) -> None:
    before = old.get("spec") or {}
    for name in (
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        errors.immutable(f"spec.{name}", before.get(name), spec.get(name))
    if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
        errors.immutable("spec.completions", before.get("completions"), spec.get("completions"))
    new, was = spec.get("template"), before.get("template")
    if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
        # The scheduling directives of a job that never started may still change; the rest of its template may not.
        new, was = _apart_from_scheduling(new), _apart_from_scheduling(was)
    errors.immutable("spec.template", was, new)


def _apart_from_scheduling(template: Document | None) -> Document:
    template = template or {}
    spec = {name: value for name, value in (template.get("spec") or {}).items() if name not in _TEMPLATE_SCHEDULING}
    return {"spec": spec}


def check_cron_job(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    schedule = spec.get("schedule")
    if not schedule:
        errors.required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        errors.invalid("spec.schedule", schedule, f"expected exactly 5 fields, found {len(schedule.split())}")
    elif "TZ=" in schedule:
        errors.invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    if spec.get("concurrencyPolicy") not in ("Allow", "Forbid", "Replace"):
        errors.unsupported(
            "spec.concurrencyPolicy", spec.get("concurrencyPolicy") or "", ("Allow", "Forbid", "Replace")
        )
    check_counts(
        spec, ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"), "spec", errors
    )
    _check_job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec", errors)
    if len(doc["metadata"].get("name") or "") > 52:
        errors.invalid("metadata.name", doc["metadata"]["name"], "must be no longer than 52 characters")


def check_budget(doc: Document, old: Document | None, errors: FieldErrors) -> None:
    spec = doc.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        errors.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for name, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            check_int_or_percent(value, f"spec.{name}", errors)
            _check_at_most_all(value, f"spec.{name}", errors)
    check_selector(spec.get("selector"), "spec.selector", errors)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        errors.unsupported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))
