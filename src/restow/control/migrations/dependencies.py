"""What most parts of the migration controller need."""

from __future__ import annotations

from dataclasses import dataclass

from restow.client.verbs import Client
from restow.control.migrations.lease_gate import LeaseGate
from restow.control.migrations.metrics import MigrationMetrics
from restow.control.migrations.settings import MigrationSettings
from restow.migration.arguments import MigrationArguments
from restow.ports import Clock


class ActiveArguments:
    """The arguments that the controller goes by now: another configuration replaces them while it runs."""

    def __init__(self, value: MigrationArguments) -> None:
        self.value = value

    def replace(self, value: MigrationArguments) -> None:
        self.value = value


@dataclass(frozen=True, slots=True)
class MigrationDependencies:
    client: Client
    clock: Clock
    settings: MigrationSettings
    metrics: MigrationMetrics
    arguments: ActiveArguments
    lease_gate: LeaseGate
