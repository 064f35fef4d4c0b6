"""Acting on somebody's cluster once: with a `bearing` there, one cycle of the descheduler, or a plan carried out."""

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
from restow.control.descheduler import Applying, Descheduler, Progress, Run, usage
from restow.control.descheduler import Settings as DeschedulerSettings
from restow.model.kinds import POD_MIGRATION_JOB
from restow.planning.descheduling.providers import Provider
from restow.planning.measured import Measured, Queries
from restow.planning.plan import Plan
from restow.ports import Api, Clock, NotFound
from restow.running.configuration import Configuration
from restow.running.installed import installed_configuration
from restow.running.parts import in_a_thread
from restow.running.reaching import find_namespace


class Bearing(msgspec.Struct, frozen=True):
    """What it takes to act on a living cluster once."""

    api: Api
    clock: Clock
    rng: random.Random
    configuration: Configuration


@asynccontextmanager
async def bearing(kubeconfig: Path | None, written: Configuration | None, namespace: str) -> AsyncIterator[Bearing]:
    """The cluster that a kubeconfig names, with a configuration: what is written, else what is installed there.

    Raises ConfigError, WireError and ApiError."""
    clock, rng = SystemClock(), random.Random()
    async with KubernetesApi(find_config(kubeconfig), clock=clock, rng=random.Random(rng.getrandbits(64))) as api:
        yield Bearing(api, clock, rng, written or await installed_configuration(Client(api), namespace))


class NotInstalled(Exception):
    """The cluster does not know what moves pods."""


async def check_installed(client: Client) -> None:
    """Whether jobs could be made at all, which servers do not say in so many words. Raises NotInstalled."""
    try:
        async with aclosing(client.pages(POD_MIGRATION_JOB, limit=1)) as pages:
            await anext(pages, None)
    except NotFound as problem:
        advice = "restow install | kubectl apply --server-side -f - brings that, and who carries them out"
        raise NotInstalled(f"the cluster does not know {POD_MIGRATION_JOB.qualified_name}; {advice}") from problem


async def _prepare(api: Api, namespace: str) -> None:
    """See that jobs can be made, and that there is a place for turns' Lease."""
    client = Client(api)
    await check_installed(client)
    await find_namespace(client, namespace)


async def deschedule(at: Bearing, namespace: str, profile: str | None, *, dry_run: bool) -> Run:
    """One cycle of a profile, now. Raises RunRefused, NotInstalled, LookupError, WireError, CannotRun and ApiError."""
    if not dry_run:
        await _prepare(at.api, namespace)
    policy = at.configuration.read_descheduler()
    made = Descheduler(
        at.api,
        at.clock,
        at.rng,
        policy=policy,
        scheduler=at.configuration.read_scheduler(),
        arguments=at.configuration.read_migration(),
        settings=DeschedulerSettings(namespace=namespace, who=f"restow deschedule on {socket.gethostname()}"),
        prometheus=PrometheusServer(policy.prometheus) if policy.prometheus else None,
        aside=in_a_thread,
    )
    return await made.once(profile, dry_run=dry_run)


async def carry_out(
    at: Bearing, namespace: str, plan: Plan, tell: Callable[[Progress], None], *, strict: bool = False
) -> Progress:
    """Carry a plan out; `tell` hears how it goes. With `strict` nothing is repaired. Raises Changed, InTheWay,
    NotInstalled, WireError, CannotRun and ApiError."""
    await _prepare(at.api, namespace)
    settings = DeschedulerSettings(namespace=namespace, who=f"restow apply on {socket.gethostname()}", look_again=1.0)
    applying = Applying(
        at.api,
        at.clock,
        at.rng,
        scheduler=at.configuration.read_scheduler(),
        arguments=at.configuration.read_migration(),
        settings=settings,
        strict=strict,
        tell=tell,
        aside=in_a_thread,
    )
    return await applying.apply(plan)


async def ask_prometheus(provider: Provider, queries: Queries) -> Measured:
    """What it measures; nothing, and why, if it does not answer."""
    return await usage.ask(PrometheusServer(provider), queries)
