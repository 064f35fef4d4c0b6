"""The migration controller as a running loop. Start reading at `controller`; the eviction itself is `eviction_attempt`.

`migration_cache` and `event_handlers` are what events feed, `cached_facts` and `live_facts` what decisions read,
`arbitrator` admits jobs, `job_writer` and `eviction_attempt` write.
"""

from restow.control.migrations.controller import MigrationConfiguration, MigrationController
from restow.control.migrations.metrics import MigrationMetrics
from restow.control.migrations.settings import MigrationSettings

__all__ = ["MigrationConfiguration", "MigrationController", "MigrationMetrics", "MigrationSettings"]
