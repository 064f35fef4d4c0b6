"""The parts of Restow that `restow run` runs: how each is made, and what of the configuration it goes by."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TypeVar, cast

from prometheus_client import CollectorRegistry

from restow.adapters.prometheus import PrometheusServer
from restow.control import descheduler, migrations, queues, reservations, scheduler
from restow.control.aside import Aside
from restow.running.configuration import Configuration
from restow.running.posts import Component, Means, Part

T = TypeVar("T")


class SchedulerPart:
    name = "scheduler"

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        self._metrics = scheduler.Metrics(registry)

    def read(self, configuration: Configuration) -> object:
        terms = configuration.read_reservations()
        return configuration.scheduler, terms.expiry_check, terms.namespace_share

    def make(self, means: Means, configuration: Configuration) -> Component:
        profile, terms = configuration.read_scheduler(), configuration.read_reservations()
        settings = scheduler.Settings(expiry_check=terms.expiry_check, namespace_share=terms.namespace_share)
        return scheduler.Scheduler(
            means.api,
            means.clock,
            means.rng,
            profile=profile,
            settings=settings,
            metrics=self._metrics,
            informers=means.informers,
        )

    def adopt(self, component: Component, configuration: Configuration) -> bool:
        return False


class ReservationsPart:
    name = "reservations"

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        self._metrics = reservations.Metrics(registry)

    def read(self, configuration: Configuration) -> object:
        return configuration.read_reservations(), configuration.scheduler_names

    def make(self, means: Means, configuration: Configuration) -> Component:
        terms, names = configuration.read_reservations(), configuration.scheduler_names
        return reservations.Collector(
            means.api,
            means.clock,
            means.rng,
            names=names,
            arguments=terms,
            informers=means.informers,
            metrics=self._metrics,
        )

    def adopt(self, component: Component, configuration: Configuration) -> bool:
        return False


class MigrationsPart:
    name = "migrations"

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        self._metrics = migrations.Metrics(registry)
        self._settings = migrations.Settings(namespace=namespace)

    def read(self, configuration: Configuration) -> object:
        return configuration.read_migration(), configuration.scheduler

    def make(self, means: Means, configuration: Configuration) -> Component:
        return migrations.Migrations(
            means.api,
            means.clock,
            means.rng,
            arguments=configuration.read_migration(),
            scheduler=configuration.read_scheduler(),
            settings=self._settings,
            metrics=self._metrics,
            informers=means.informers,
        )

    def adopt(self, component: Component, configuration: Configuration) -> bool:
        made = cast("migrations.Migrations", component)
        made.configure(configuration.read_migration(), configuration.read_scheduler())
        return True


async def in_a_thread(work: Callable[[], T], /) -> T:
    """Planning takes seconds in a large cluster, in which Leases have to be renewed."""
    return await asyncio.to_thread(work)


class DeschedulerPart:
    name = "descheduler"

    def __init__(self, registry: CollectorRegistry, namespace: str, aside: Aside = in_a_thread) -> None:
        self._aside = aside
        self._metrics = descheduler.Metrics(registry)
        self._settings = descheduler.Settings(namespace=namespace, who=f"the descheduler on {socket.gethostname()}")

    def read(self, configuration: Configuration) -> object:
        return configuration.descheduler, configuration.scheduler, configuration.migration

    def make(self, means: Means, configuration: Configuration) -> Component:
        policy = configuration.read_descheduler()
        return descheduler.Descheduler(
            means.api,
            means.clock,
            means.rng,
            policy=policy,
            scheduler=configuration.read_scheduler(),
            arguments=configuration.read_migration(),
            settings=self._settings,
            metrics=self._metrics,
            prometheus=PrometheusServer(policy.prometheus) if policy.prometheus else None,
            aside=self._aside,
            informers=means.informers,
        )

    def adopt(self, component: Component, configuration: Configuration) -> bool:
        return False


class QueuesPart:
    name = "queues"

    def __init__(self, registry: CollectorRegistry, namespace: str, aside: Aside = in_a_thread) -> None:
        self._aside = aside
        self._metrics = queues.Metrics(registry)
        self._settings = queues.Settings(namespace=namespace)

    def read(self, configuration: Configuration) -> object:
        return configuration.read_queues(), configuration.migration, configuration.scheduler_names

    def make(self, means: Means, configuration: Configuration) -> Component:
        return queues.Queues(
            means.api,
            means.clock,
            means.rng,
            schedulers=configuration.scheduler_names,
            arguments=configuration.read_queues(),
            migration=configuration.read_migration(),
            settings=self._settings,
            metrics=self._metrics,
            aside=self._aside,
            informers=means.informers,
        )

    def adopt(self, component: Component, configuration: Configuration) -> bool:
        arguments, migration = configuration.read_queues(), configuration.read_migration()
        cast("queues.Queues", component).configure(configuration.scheduler_names, arguments, migration)
        return True


PARTS: dict[str, Callable[[CollectorRegistry, str], Part]] = {
    SchedulerPart.name: SchedulerPart,
    ReservationsPart.name: ReservationsPart,
    DeschedulerPart.name: DeschedulerPart,
    MigrationsPart.name: MigrationsPart,
    QueuesPart.name: QueuesPart,
}
