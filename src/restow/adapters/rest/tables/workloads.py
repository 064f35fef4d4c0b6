"""Rows of the kinds that own pods, and of what guards them."""

from __future__ import annotations

from restow.adapters.rest.tables.columns import (
    AGE,
    NAME,
    NONE,
    TEMPLATE_COLUMNS,
    UNSET,
    Cells,
    age_of,
    container_cells,
    integer_column,
    labels_text,
    make_printer,
    name_of,
    selector_text,
    wide_column,
)
from restow.adapters.rest.tables.durations import age_since, duration_between
from restow.adapters.rest.unchecked_documents import at, condition_is_true, flag, mapping, number, sequence, text
from restow.model.objects import Document


def _template_cells(owner: Document) -> list[str]:
    return [*container_cells(mapping(owner, "spec", "template")), selector_text(mapping(owner, "spec", "selector"))]


def _deployment(item: Document, now: float) -> Cells:
    ready = f"{number(item, 'status', 'readyReplicas')}/{number(item, 'spec', 'replicas')}"
    updated, available = number(item, "status", "updatedReplicas"), number(item, "status", "availableReplicas")
    return [name_of(item), ready, updated, available, age_of(item, now), *_template_cells(item)]


def _replica_set(item: Document, now: float) -> Cells:
    counts = [
        number(item, "spec", "replicas"),
        number(item, "status", "replicas"),
        number(item, "status", "readyReplicas"),
    ]
    return [name_of(item), *counts, age_of(item, now), *_template_cells(item)]


def _replication_controller(item: Document, now: float) -> Cells:
    return [*_replica_set(item, now)[:-1], labels_text(mapping(item, "spec", "selector"))]


def _stateful_set(item: Document, now: float) -> Cells:
    ready = f"{number(item, 'status', 'readyReplicas')}/{number(item, 'spec', 'replicas')}"
    return [name_of(item), ready, age_of(item, now), *container_cells(mapping(item, "spec", "template"))]


_DAEMON_COUNTS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def _daemon_set(item: Document, now: float) -> Cells:
    counts = [number(item, "status", field) for field in _DAEMON_COUNTS]
    node_selector = labels_text(mapping(item, "spec", "template", "spec", "nodeSelector"))
    return [name_of(item), *counts, node_selector, age_of(item, now), *_template_cells(item)]


def _job(item: Document, now: float) -> Cells:
    cells = [name_of(item), _job_status(item), _job_completions(item), _job_duration(item, now)]
    return [*cells, age_of(item, now), *_template_cells(item)]


def _job_status(item: Document) -> str:
    for condition, shown in (("Complete", "Complete"), ("Failed", "Failed")):
        if condition_is_true(item, condition):
            return shown
    if text(item, "metadata", "deletionTimestamp"):
        return "Terminating"
    later = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((condition for condition in later if condition_is_true(item, condition)), "Running")


def _job_completions(item: Document) -> str:
    succeeded = number(item, "status", "succeeded")
    completions, parallelism = at(item, "spec", "completions"), number(item, "spec", "parallelism")
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(item: Document, now: float) -> str:
    start, end = text(item, "status", "startTime"), text(item, "status", "completionTime")
    if not start:
        return ""
    return duration_between(start, end) if end else age_since(start, now)


def _cron_job(item: Document, now: float) -> Cells:
    last = text(item, "status", "lastScheduleTime")
    suspend = at(item, "spec", "suspend")
    return [
        name_of(item),
        text(item, "spec", "schedule"),
        text(item, "spec", "timeZone") or NONE,
        UNSET if suspend is None else str(flag(item, "spec", "suspend")),
        len(sequence(item, "status", "active")),
        age_since(last, now) if last else NONE,
        age_of(item, now),
        *_template_cells(mapping(item, "spec", "jobTemplate")),
    ]


def _disruption_budget(item: Document, now: float) -> Cells:
    limits = [text(item, "spec", field) or "N/A" for field in ("minAvailable", "maxUnavailable")]
    return [name_of(item), *limits, number(item, "status", "disruptionsAllowed"), age_of(item, now)]


def _pod_template(item: Document, now: float) -> Cells:
    labels = labels_text(mapping(item, "template", "metadata", "labels"))
    return [name_of(item), *container_cells(mapping(item, "template")), labels]


def _controller_revision(item: Document, now: float) -> Cells:
    owners = [each for each in sequence(item, "metadata", "ownerReferences") if flag(each, "controller")]
    return [name_of(item), _owner_text(owners[0]) if owners else NONE, number(item, "revision"), age_of(item, now)]


def _owner_text(owner: Document) -> str:
    group = text(owner, "apiVersion").rpartition("/")[0]
    kind = text(owner, "kind").lower()
    return f"{kind}.{group}/{text(owner, 'name')}" if group else f"{kind}/{text(owner, 'name')}"


def _autoscaler(item: Document, now: float) -> Cells:
    target = f"{text(item, 'spec', 'scaleTargetRef', 'kind')}/{text(item, 'spec', 'scaleTargetRef', 'name')}"
    minimum = text(item, "spec", "minReplicas") or UNSET
    counts = [number(item, "spec", "maxReplicas"), number(item, "status", "currentReplicas")]
    return [name_of(item), target, "<unknown>", minimum, *counts, age_of(item, now)]


def _scale(item: Document, now: float) -> Cells:
    return [name_of(item), number(item, "spec", "replicas"), number(item, "status", "replicas"), age_of(item, now)]


_REPLICA_COLUMNS = (
    NAME,
    integer_column("Desired"),
    integer_column("Current"),
    integer_column("Ready"),
    AGE,
    *TEMPLATE_COLUMNS,
)

PRINTERS = {
    ("apps", "Deployment"): make_printer(
        _deployment, NAME, "Ready", integer_column("Up-to-date"), integer_column("Available"), AGE, *TEMPLATE_COLUMNS
    ),
    ("apps", "ReplicaSet"): make_printer(_replica_set, *_REPLICA_COLUMNS),
    ("", "ReplicationController"): make_printer(_replication_controller, *_REPLICA_COLUMNS),
    ("apps", "StatefulSet"): make_printer(
        _stateful_set, NAME, "Ready", AGE, wide_column("Containers"), wide_column("Images")
    ),
    ("apps", "DaemonSet"): make_printer(
        _daemon_set,
        *(
            NAME,
            integer_column("Desired"),
            integer_column("Current"),
            integer_column("Ready"),
            integer_column("Up-to-date"),
            integer_column("Available"),
        ),
        *("Node Selector", AGE, *TEMPLATE_COLUMNS),
    ),
    ("", "PodTemplate"): make_printer(_pod_template, NAME, "Containers", "Images", "Pod Labels"),
    ("apps", "ControllerRevision"): make_printer(
        _controller_revision, NAME, "Controller", integer_column("Revision"), AGE
    ),
    ("batch", "Job"): make_printer(_job, NAME, "Status", "Completions", "Duration", AGE, *TEMPLATE_COLUMNS),
    ("batch", "CronJob"): make_printer(
        _cron_job,
        *(NAME, "Schedule", "Timezone", "Suspend", integer_column("Active"), "Last Schedule", AGE, *TEMPLATE_COLUMNS),
    ),
    ("policy", "PodDisruptionBudget"): make_printer(
        _disruption_budget, NAME, "Min Available", "Max Unavailable", integer_column("Allowed Disruptions"), AGE
    ),
    ("autoscaling", "HorizontalPodAutoscaler"): make_printer(
        _autoscaler, NAME, "Reference", "Targets", "MinPods", integer_column("MaxPods"), integer_column("Replicas"), AGE
    ),
    ("autoscaling", "Scale"): make_printer(_scale, NAME, integer_column("Desired"), integer_column("Available"), AGE),
}
