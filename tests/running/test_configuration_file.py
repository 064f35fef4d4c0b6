"""The configuration file: all problems at once, contradictions between sections, reload, and the examples in docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from restow.model.wire import WireError
from restow.running.configuration import read_configuration
from restow.running.configuration_file import ConfigurationFile
from restow.running.process import lease_timing


def file(path: Path, text: str) -> ConfigurationFile:
    path.write_text(text)
    return ConfigurationFile(path)


MISTAKES = """
schedulers: {}
scheduler: {actions: jump, schedulerNames: 3}
descheduler:
  maxNoOfPodsToEvictTotal: -1
  metricsProviders: [{source: Prometheus}]
  profiles:
  - name: a
    interval: often
  - name: a
    pluginConfig:
    - {name: LoadAware, args: {maxAge: 0s, metricsUtilization: {source: Prometheus}}}
    plugins: {balance: {enabled: [Defrag]}}
migration: {evictBurst: 0, evictqps: 3}
reservations: {namespaceShare: 200}
queues: 5
"""


def test_all_problems_of_all_sections_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(WireError) as error:
        file(tmp_path / "c.yaml", MISTAKES).read()
    assert [problem.path for problem in error.value.problems] == [
        "queues",
        "schedulers",
        "scheduler.schedulerNames",
        "scheduler.actions",
        "descheduler.profiles[0].interval",
        "descheduler.maxNoOfPodsToEvictTotal",
        "descheduler.profiles[1].name",
        "descheduler.metricsProviders[0].prometheus.url",
        "descheduler.profiles[1].plugins.balance.enabled[0]",
        "descheduler.profiles[1].pluginConfig[0].args.maxAge",
        "migration.evictqps",
        "migration.evictBurst",
        "reservations.namespaceShare",
    ]


RESTING = """
migration: {{finishedJobTTL: {kept}}}
descheduler:
  profiles:
  - pluginConfig: [{{name: NodeResourceBalance, args: {{coolDownTime: 7200}}}}]
    plugins: {{balance: {{enabled: [{enabled}]}}}}
"""


@pytest.mark.parametrize(
    "enabled", ["NodeResourceBalance", "Defragmentation"], ids=["plugin of a profile", "strategy of restow plan"]
)
def test_finished_jobs_must_be_kept_as_long_as_the_cool_down_time(tmp_path: Path, enabled: str) -> None:
    with pytest.raises(WireError, match=r"migration.finishedJobTTL: is 3600s, shorter than coolDownTime 7200s"):
        file(tmp_path / "c.yaml", RESTING.format(kept="1h", enabled=enabled)).read()
    file(tmp_path / "c.yaml", RESTING.format(kept="2h", enabled=enabled)).read()


EVICTOR = """
migration: {{{allowed}}}
descheduler:
  profiles:
  - pluginConfig: [{{name: DefaultEvictor, args: {args}}}]
"""


@pytest.mark.parametrize(
    ("args", "path", "option"),
    [
        ("{evictLocalStoragePods: true}", "evictLocalStoragePods", "evictLocalStoragePods"),
        (
            "{podProtections: {defaultDisabled: [FailedBarePods, SystemCriticalPods]}}",
            "podProtections.defaultDisabled[1]",
            "evictSystemCriticalPods",
        ),
        ("{evictFailedBarePods: true}", "evictFailedBarePods", "evictFailedBarePods"),
    ],
    ids=["pods with local storage", "critical pods", "failed bare pods"],
)
def test_profile_cannot_allow_pods_that_migrations_protect(tmp_path: Path, args: str, path: str, option: str) -> None:
    message = f"descheduler.profiles[0].pluginConfig[0].args.{path}: has no effect unless migration.{option} is true"
    with pytest.raises(WireError) as error:
        file(tmp_path / "c.yaml", EVICTOR.format(allowed="", args=args)).read()
    assert message in str(error.value)
    everything = "evictLocalStoragePods: true, evictSystemCriticalPods: true, evictFailedBarePods: true"
    file(tmp_path / "c.yaml", EVICTOR.format(allowed=everything, args=args)).read()


def test_unknown_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WireError, match="migrations: unknown field"):
        file(tmp_path / "c.yaml", "migrations: {}\n").read()


def test_migrations_default_to_the_scheduler_names_of_the_scheduler(tmp_path: Path) -> None:
    read = file(tmp_path / "c.yaml", "scheduler: {schedulerNames: [a, b]}\n").read()
    assert read.read_migration().protections.scheduler_names == frozenset({"a", "b"})


def test_reload_returns_valid_changes_only(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    watched = file(path, "migration: {evictBurst: 1}\n")
    watched.read()
    assert watched.reload_if_changed() is None
    path.write_text("migration: {evictBurst: -1}\n")
    assert watched.reload_if_changed() is None
    path.write_text("migration: {evictBurst: 2}\n")
    changed = watched.reload_if_changed()
    assert changed is not None and changed.migration == {"evictBurst": 2}
    assert watched.reload_if_changed() is None
    path.unlink()
    assert watched.reload_if_changed() is None


@pytest.mark.parametrize(
    ("written", "problem"),
    [("1s", "must be at least 2s, is 1s"), ("soon", "duration 'soon'")],
)
def test_invalid_lease_duration_is_refused(written: str, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        lease_timing(written)


def test_lease_timing_has_the_proportions_of_client_go() -> None:
    timing = lease_timing("15s")
    assert (timing.renew_deadline, timing.retry_period, timing.request_timeout) == (10.0, 2.0, 5.0)


DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = [
    pytest.param(block, id=f"{page.name} {number}")
    for page in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    if re.match(r"(?:scheduler|descheduler|migration|reservations|queues):", block)
]


@pytest.mark.parametrize("block", EXAMPLES)
def test_configuration_example_in_docs_is_valid(block: str) -> None:
    read_configuration(block.encode(), "docs")


def test_docs_have_configuration_examples() -> None:
    assert len(EXAMPLES) >= 4
