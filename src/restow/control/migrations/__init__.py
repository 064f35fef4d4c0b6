"""Migrations as a running loop. Start reading at `migrations`."""

from restow.control.migrations.controller import Migrations
from restow.control.migrations.metrics import Metrics
from restow.control.migrations.settings import Settings

__all__ = ["Metrics", "Migrations", "Settings"]
