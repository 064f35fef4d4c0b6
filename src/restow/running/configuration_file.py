"""The file of `restow run --config`: read once at the start, then again whenever it changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from restow.model.wire import WireError
from restow.running.configuration import Configuration, read_configuration

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
"""Seconds between two checks of the file."""


class Configurable(Protocol):
    def configure(self, configuration: Configuration) -> None: ...


class ConfigurationFile:
    """The file and its content as of the last read."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._data = b""

    def read(self) -> Configuration:
        """Read and validate the file. Raises WireError with every problem, and OSError."""
        if self._path is None:
            return Configuration()
        # Remembered before it is validated, so that an invalid file is logged once and not at every check.
        self._data = self._path.read_bytes()
        return read_configuration(self._data, str(self._path))

    def reload_if_changed(self) -> Configuration | None:
        """The new configuration if the file has changed, else None. An invalid file is logged once and ignored."""
        try:
            if self._path is None or self._path.read_bytes() == self._data:
                return None
            configuration = self.read()
        except (OSError, WireError) as error:
            log.error("new configuration is invalid, keeping the old one", extra={"err": str(error)})
            return None
        log.info("configuration changed", extra={"file": str(self._path)})
        return configuration

    async def watch_for_changes(self, users: Sequence[Configurable]) -> None:
        """Call `configure` of all users with every new configuration, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            configuration = self.reload_if_changed()
            if configuration is not None:
                for user in users:
                    user.configure(configuration)
