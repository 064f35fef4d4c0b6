"""Migrations as a running loop. Start reading at `migrations`."""

from restow.control.migrations.controller import MigrationController
from restow.control.migrations.metrics import MigrationMetrics
from restow.control.migrations.settings import MigrationSettings

__all__ = ["MigrationController", "MigrationMetrics", "MigrationSettings"]
