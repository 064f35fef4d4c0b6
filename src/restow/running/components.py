"""The components that `restow run` can run: how each controller is built, and which configuration it depends on.

Scheduler, reservations and descheduler are built anew when their configuration changes. Migrations and queues take over
the new one from their next step.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TypeVar, cast

from prometheus_client import CollectorRegistry

from restow.adapters.prometheus import PrometheusServer
from restow.control import descheduler, migrations, queues, reservations, scheduler
from restow.control.executor import Executor
from restow.running.component_runner import Component, ComponentDependencies, Controller
from restow.running.configuration import Configuration

T = TypeVar("T")


class SchedulerComponent:
    name = "scheduler"

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        self._metrics = scheduler.SchedulerMetrics(registry)

    def relevant_configuration(self, configuration: Configuration) -> object:
        arguments = configuration.read_reservations()
        return configuration.scheduler, arguments.expiry_check, arguments.namespace_share

    def build(self, dependencies: ComponentDependencies, configuration: Configuration) -> Controller:
        profile, arguments = configuration.read_scheduler(), configuration.read_reservations()
        settings = scheduler.SchedulerSettings(
            reservation_check_period=arguments.expiry_check, namespace_share=arguments.namespace_share
        )
        return scheduler.Scheduler(
            dependencies.api,
            dependencies.clock,
            dependencies.rng,
            profile=profile,
            settings=settings,
            metrics=self._metrics,
            informers=dependencies.informers,
        )

    def reconfigure(self, controller: Controller, configuration: Configuration) -> bool:
        return False


class ReservationsComponent:
    name = "reservations"

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        self._metrics = reservations.ReservationMetrics(registry)

    def relevant_configuration(self, configuration: Configuration) -> object:
        return configuration.read_reservations(), configuration.scheduler_names

    def build(self, dependencies: ComponentDependencies, configuration: Configuration) -> Controller:
        arguments, names = configuration.read_reservations(), configuration.scheduler_names
        return reservations.ReservationGarbageCollector(
            dependencies.api,
            dependencies.clock,
            dependencies.rng,
            scheduler_names=names,
            settings=arguments,
            informers=dependencies.informers,
            metrics=self._metrics,
        )

    def reconfigure(self, controller: Controller, configuration: Configuration) -> bool:
        return False


class MigrationsComponent:
    name = "migrations"

    def __init__(self, registry: CollectorRegistry, namespace: str) -> None:
        self._metrics = migrations.MigrationMetrics(registry)
        self._settings = migrations.MigrationSettings(namespace=namespace)

    def relevant_configuration(self, configuration: Configuration) -> object:
        return configuration.read_migration(), configuration.scheduler

    def build(self, dependencies: ComponentDependencies, configuration: Configuration) -> Controller:
        return migrations.MigrationController(
            dependencies.api,
            dependencies.clock,
            dependencies.rng,
            migrations.MigrationConfiguration(configuration.read_migration(), configuration.read_scheduler()),
            settings=self._settings,
            metrics=self._metrics,
            informers=dependencies.informers,
        )

    def reconfigure(self, controller: Controller, configuration: Configuration) -> bool:
        cast(migrations.MigrationController, controller).configure(
            migrations.MigrationConfiguration(configuration.read_migration(), configuration.read_scheduler())
        )
        return True


async def run_in_thread(work: Callable[[], T], /) -> T:
    """Run a computation in a thread: planning takes seconds in a large cluster, while Leases have to be renewed."""
    return await asyncio.to_thread(work)


class DeschedulerComponent:
    name = "descheduler"

    def __init__(self, registry: CollectorRegistry, namespace: str, executor: Executor = run_in_thread) -> None:
        self._executor = executor
        self._metrics = descheduler.DeschedulerMetrics(registry)
        self._settings = descheduler.DeschedulerSettings(
            namespace=namespace, identity=f"the descheduler on {socket.gethostname()}"
        )

    def relevant_configuration(self, configuration: Configuration) -> object:
        return configuration.descheduler, configuration.scheduler, configuration.migration

    def build(self, dependencies: ComponentDependencies, configuration: Configuration) -> Controller:
        policy = configuration.read_descheduler()
        return descheduler.Descheduler(
            dependencies.api,
            dependencies.clock,
            dependencies.rng,
            descheduler.DeschedulerConfiguration(
                policy=policy,
                scheduler=configuration.read_scheduler(),
                migration=configuration.read_migration(),
                settings=self._settings,
                prometheus=PrometheusServer(policy.prometheus) if policy.prometheus else None,
            ),
            metrics=self._metrics,
            executor=self._executor,
            informers=dependencies.informers,
        )

    def reconfigure(self, controller: Controller, configuration: Configuration) -> bool:
        return False


class QueuesComponent:
    name = "queues"

    def __init__(self, registry: CollectorRegistry, namespace: str, executor: Executor = run_in_thread) -> None:
        self._executor = executor
        self._metrics = queues.QueueMetrics(registry)
        self._settings = queues.QueueControllerSettings(namespace=namespace)

    def relevant_configuration(self, configuration: Configuration) -> object:
        return configuration.read_queues(), configuration.migration, configuration.scheduler_names

    def build(self, dependencies: ComponentDependencies, configuration: Configuration) -> Controller:
        return queues.QueueController(
            dependencies.api,
            dependencies.clock,
            dependencies.rng,
            self._controller_configuration(configuration),
            metrics=self._metrics,
            executor=self._executor,
            informers=dependencies.informers,
        )

    def reconfigure(self, controller: Controller, configuration: Configuration) -> bool:
        cast(queues.QueueController, controller).configure(self._controller_configuration(configuration))
        return True

    def _controller_configuration(self, configuration: Configuration) -> queues.QueueControllerConfiguration:
        return queues.QueueControllerConfiguration(
            scheduler_names=configuration.scheduler_names,
            arguments=configuration.read_queues(),
            migration=configuration.read_migration(),
            settings=self._settings,
        )


COMPONENTS: dict[str, Callable[[CollectorRegistry, str], Component]] = {
    SchedulerComponent.name: SchedulerComponent,
    ReservationsComponent.name: ReservationsComponent,
    DeschedulerComponent.name: DeschedulerComponent,
    MigrationsComponent.name: MigrationsComponent,
    QueuesComponent.name: QueuesComponent,
}
