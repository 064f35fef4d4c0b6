"""Commands that act on a cluster once: one cycle of the descheduler, or a saved plan carried out.

Both work in a `ClusterSession`: an API server and the configuration that applies there.
"""

from __future__ import annotations

import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec

from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, find_config
from restow.adapters.prometheus import PrometheusServer
from restow.client.verbs import Client
from restow.control.descheduler import (
    ApplyConfiguration,
    ApplyProgress,
    Descheduler,
    DeschedulerConfiguration,
    DeschedulerRun,
    DeschedulerSettings,
    PlanRunner,
    usage_metrics,
)
from restow.model.kinds import POD_MIGRATION_JOB
from restow.planning.descheduling.metrics_providers import PrometheusProvider
from restow.planning.plan import Plan
from restow.planning.usage_samples import PrometheusQueries, UsageSamples
from restow.ports import Api, Clock, NotFound
from restow.running.components import run_in_thread
from restow.running.configuration import Configuration
from restow.running.existing_installation import installed_configuration
from restow.running.preflight import ensure_namespace


class ClusterSession(msgspec.Struct, frozen=True):
    """A connection to a cluster, and the configuration that applies there."""

    api: Api
    clock: Clock
    rng: random.Random
    configuration: Configuration


@asynccontextmanager
async def open_session(
    kubeconfig: Path | None, configuration: Configuration | None, namespace: str
) -> AsyncIterator[ClusterSession]:
    """Connect to the cluster of a kubeconfig. Without a configuration, the one that is installed there applies.

    Raises ConfigError, WireError and ApiError."""
    clock, rng = SystemClock(), random.Random()
    async with KubernetesApi(find_config(kubeconfig), clock=clock, rng=random.Random(rng.getrandbits(64))) as api:
        yield ClusterSession(api, clock, rng, configuration or await installed_configuration(Client(api), namespace))


class NotInstalled(Exception):
    """The cluster has no PodMigrationJobs: their definition is missing."""


async def check_installed(client: Client) -> None:
    """Raise NotInstalled if the cluster has no definition of PodMigrationJobs. A server answers a create then with a
    bare 404, which does not say what is missing."""
    try:
        async with aclosing(client.pages(POD_MIGRATION_JOB, limit=1)) as pages:
            await anext(pages, None)
    except NotFound as problem:
        name = POD_MIGRATION_JOB.qualified_name
        hint = "install Restow with: restow install | kubectl apply --server-side -f -"
        raise NotInstalled(f"{name} is not installed in the cluster; {hint}") from problem


async def _prepare(api: Api, namespace: str) -> None:
    """Check that jobs can be created, and that the namespace exists for the Lease `restow-cycle`."""
    client = Client(api)
    await check_installed(client)
    await ensure_namespace(client, namespace)


async def run_profile_now(
    session: ClusterSession, namespace: str, profile: str | None, *, dry_run: bool
) -> DeschedulerRun:
    """Run one cycle of a profile now. Raises RunRefused, NotInstalled, LookupError, WireError, CannotRun and
    ApiError."""
    if not dry_run:
        await _prepare(session.api, namespace)
    policy = session.configuration.read_descheduler()
    configuration = DeschedulerConfiguration(
        policy=policy,
        scheduler=session.configuration.read_scheduler(),
        migration=session.configuration.read_migration(),
        settings=DeschedulerSettings(namespace=namespace, identity=f"restow deschedule on {socket.gethostname()}"),
        prometheus=PrometheusServer(policy.prometheus) if policy.prometheus else None,
    )
    descheduler = Descheduler(session.api, session.clock, session.rng, configuration, executor=run_in_thread)
    return await descheduler.run_once(profile, dry_run=dry_run)


async def apply_plan(
    session: ClusterSession,
    namespace: str,
    plan: Plan,
    report: Callable[[ApplyProgress], None],
    *,
    strict: bool = False,
) -> ApplyProgress:
    """Carry a plan out and call `report` with its progress. With `strict` the plan is not repaired if the cluster has
    changed. Raises ClusterChanged, AnotherPlanActive, NotInstalled, WireError, CannotRun and ApiError."""
    await _prepare(session.api, namespace)
    settings = DeschedulerSettings(
        namespace=namespace, identity=f"restow apply on {socket.gethostname()}", poll_interval=1.0
    )
    configuration = ApplyConfiguration(
        scheduler=session.configuration.read_scheduler(),
        migration=session.configuration.read_migration(),
        settings=settings,
        strict=strict,
    )
    runner = PlanRunner(
        session.api, session.clock, session.rng, configuration, report_progress=report, executor=run_in_thread
    )
    return await runner.apply(plan)


async def query_prometheus(provider: PrometheusProvider, queries: PrometheusQueries) -> UsageSamples:
    """Usage as Prometheus measures it. If it does not answer, the samples are empty and say why."""
    return await usage_metrics.query_usage(PrometheusServer(provider), queries)
