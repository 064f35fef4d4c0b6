"""Under which expected a job is carried out, and what the stop switch says."""

from __future__ import annotations

from typing import Any

import pytest

from restow.migration.arguments import MigrationArguments
from restow.migration.effective_options import EffectiveOptions, effective_options
from restow.migration.stop_switch import RESUME_HINT, stop_reason
from restow.model.objects import ConfigMap
from tests.migration.move_facts import job

READ_ERRORS = "ignoreStoreReadErrorWithClusterBreakingPotential"
CONFIGURED = MigrationArguments(
    default_mode="EvictDirectly", default_ttl=60.0, waiting_ttl=10.0, eviction_policy="Delete", grace_seconds=5
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {}, id="as configured"),
        pytest.param({"mode": "ReservationFirst"}, {"mode": "ReservationFirst"}, id="its own mode"),
        pytest.param({"ttl": "90s"}, {"ttl": 90.0}, id="its own time"),
        pytest.param({"ttl": "0s"}, {"ttl": 0.0}, id="no limit"),
        pytest.param({"deleteOptions": {"gracePeriodSeconds": 0}}, {"grace_seconds": 0}, id="its own grace period"),
        pytest.param({"deleteOptions": {"dryRun": ["All"]}}, {"dry_run": True}, id="its own dry run"),
        pytest.param(
            {"mode": "x", "ttl": "x", "deleteOptions": {"gracePeriodSeconds": -1}},
            {
                "mode": "x",
                "grace_seconds": -1,
                "problem": "spec.mode: 'x' is not one of ReservationFirst, EvictDirectly; "
                "spec.ttl: duration 'x': expected numbers with units (ns us ms s m h), such as 600s or 1h30m; "
                "spec.deleteOptions.gracePeriodSeconds: -1 is negative",
            },
            id="everything that cannot be understood",
        ),
        pytest.param({"deleteOptions": {"preconditions": {"uid": "old"}}}, {}, id="the pod it has to be"),
        pytest.param(
            {"deleteOptions": {"preconditions": {"uid": "new", "resourceVersion": "7"}}, "ttl": "-1s"},
            {
                "ttl": -1.0,
                "problem": "spec.ttl: -1s is negative; "
                "spec.deleteOptions.preconditions.uid: new is not old, the UID of the pod; "
                "spec.deleteOptions.preconditions.resourceVersion: it changes before the pod is evicted; leave it out",
            },
            id="what cannot be",
        ),
        pytest.param(
            {"deleteOptions": {"propagationPolicy": "Foreground"}},
            {"propagation_policy": "Foreground"},
            id="what goes with it",
        ),
        pytest.param(
            {"deleteOptions": {"propagationPolicy": "Now", "orphanDependents": True, READ_ERRORS: True}},
            {
                "propagation_policy": "Now",
                "problem": "spec.deleteOptions.orphanDependents: use propagationPolicy: Orphan; "
                f"spec.deleteOptions.{READ_ERRORS}: a pod that cannot be read is not moved; leave it out; "
                "spec.deleteOptions.propagationPolicy: 'Now' is not one of Foreground, Background, Orphan",
            },
            id="what is not for pods that move",
        ),
        pytest.param(
            {"deleteOptions": {"orphanDependents": False}},
            {"problem": "spec.deleteOptions.orphanDependents: use propagationPolicy: Background"},
            id="orphanDependents: false is not for them, either",
        ),
        pytest.param({"deleteOptions": {READ_ERRORS: False}}, {}, id="what is so anyway"),
    ],
)
def test_effective_options_of_a_job(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    configured = {
        "mode": "EvictDirectly",
        "ttl": 60.0,
        "waiting_ttl": 10.0,
        "eviction_policy": "Delete",
        "grace_seconds": 5,
    }
    assert effective_options(job(spec={"mode": None, **spec}), CONFIGURED) == EffectiveOptions(
        **{**configured, **expected}
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, None),
        ({}, None),
        ({"paused": "false"}, None),
        ({"paused": ""}, None),
        ({"paused": "true"}, f"evictions are stopped; {RESUME_HINT}"),
        ({"paused": "flase"}, f"evictions are stopped; {RESUME_HINT}"),
        ({"paused": "true", "reason": "drill"}, f"evictions are stopped: drill; {RESUME_HINT}"),
    ],
    ids=str,
)
def test_stop_reason_of_the_stop_switch(data: dict[str, str] | None, told: str | None) -> None:
    assert stop_reason(ConfigMap(data=data) if data is not None else None) == told


@pytest.mark.parametrize("annotation", ["restow.sh/wave", "restow.sh/migration-priority"])
@pytest.mark.parametrize(
    ("text", "is_a_number"),
    [("", True), ("0", True), ("-7", True), (f"{2**63 - 1}", True), (f"{2**63}", False), ("1.5", False), ("x", False)],
)
def test_annotations_without_an_integer_are_problems(annotation: str, text: str, is_a_number: bool) -> None:
    problem = f"metadata.annotations[{annotation}]: {text!r} is not an integer of 64 bits"
    options = effective_options(job(annotations={annotation: text}), MigrationArguments())
    assert options.problem == ("" if is_a_number else problem)
