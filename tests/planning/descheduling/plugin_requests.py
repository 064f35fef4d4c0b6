"""Asking a profile's plugins about a small cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from restow.model.objects import ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod
from restow.model.snapshot import Snapshot
from restow.model.times import format_time
from restow.planning.descheduling.policy_section import read_policy
from restow.planning.descheduling.profile_cycle import CycleOutcome, GuardedEvictionRules, run_cycle
from restow.planning.descheduling.registry import descheduler_plugins
from restow.planning.eviction_rules import ConfiguredEvictionRules
from tests.planning.clusters import NOW, plan_request

PLUGINS = descheduler_plugins()


def profile_section(*names: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A policy of one profile with these plugins, the first of which has these arguments."""
    points: dict[str, Any] = {}
    for name in names:
        point = getattr(PLUGINS[name], "point", "filter")
        points.setdefault(point, {"enabled": []})["enabled"].append(name)
    config = [{"name": names[0], "args": arguments}] if arguments else []
    return {"profiles": [{"name": "it", "plugins": points, "pluginConfig": config}], **more}


def run_profile(
    snapshot: Snapshot,
    *names: str,
    arguments: dict[str, Any] | None = None,
    ended: Iterable[Pod] = (),
    busy: dict[str, str] | None = None,
    most: int = 50,
    **more: Any,
) -> CycleOutcome:
    profile = read_policy(profile_section(*names, arguments=arguments, **more), PLUGINS).profiles[0]
    asked = plan_request(snapshot, max_moves=most)
    assert isinstance(asked.eviction_rules, ConfiguredEvictionRules)
    guarded = GuardedEvictionRules(asked.eviction_rules, profile.guards, busy or {})
    return run_cycle(profile, snapshot, replace(asked, eviction_rules=guarded), ended)


def with_age(pod: Pod, seconds: float) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=format_time(NOW - seconds)))


def with_restarts(pod: Pod, times: int, waits: str | None = None, *, init: int = 0) -> Pod:
    state = ContainerState(waiting=ContainerStateWaiting(reason=waits)) if waits else None
    main = ContainerStatus(name="main", restart_count=times, state=state)
    first = [ContainerStatus(name="init", restart_count=init)] if init else None
    return replace(pod, status=replace(pod.status, container_statuses=[main], init_container_statuses=first))


def failed_pod(pod: Pod, reason: str | None = None, exit_code: int | None = None) -> Pod:
    ended = ContainerState(terminated=ContainerStateTerminated(reason="Error", exit_code=exit_code))
    statuses = [ContainerStatus(name="main", state=ended)] if exit_code is not None else None
    status = replace(pod.status, phase="Failed", reason=reason, container_statuses=statuses)
    return replace(pod, status=status)
