"""Host ports: which ports are in use on which row.

Goes in: occupants with host ports, as they come and go. Comes out: which rows have all of a pod's host ports free. A
port is in use per address and protocol; on 0.0.0.0 it is in use on every address. A question costs the users of the
very ports asked about, so pods without host ports cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from restow.model.cluster.pod_shapes import HostPort
from restow.model.cluster.rows import Mask, Rows, Which
from restow.model.cluster.undo_log import UndoLog

EVERY_ADDRESS = "0.0.0.0"

_Users = dict[int, set[tuple[str, str]]]
"""By row: (key of the occupant, address)."""


class HostPorts:
    __slots__ = ("_in_use", "_log", "_rows")

    def __init__(self, log: UndoLog, rows: Rows) -> None:
        self._log = log
        self._rows = rows
        self._in_use: dict[tuple[str, int], _Users] = {}

    def use(self, row: int, key: str, ports: Iterable[HostPort]) -> None:
        """Count the ports of an occupant as in use on a row."""
        for address, protocol, port in ports:
            self._in_use.setdefault((protocol, port), {}).setdefault(row, set()).add((key, address))
        self._log.record(self.release, row, key, ports)

    def release(self, row: int, key: str, ports: Iterable[HostPort]) -> None:
        """The inverse of `take`."""
        for address, protocol, port in ports:
            users = self._in_use[protocol, port]
            users[row].remove((key, address))
            if not users[row]:
                del users[row]
            if not users:
                del self._in_use[protocol, port]
        self._log.record(self.use, row, key, ports)

    def rows_with_free_ports(self, wanted: Iterable[HostPort], rows: Which) -> Mask:
        """Rows where none of these ports is in use."""
        if isinstance(rows, slice):
            mask = np.ones(self._rows.size, np.bool_)
            mask[[row for port in wanted for row in self._users(port) if self._conflicts(port, row)]] = False
            return mask[rows]
        return np.array([not any(self._conflicts(port, row) for port in wanted) for row in rows.tolist()], np.bool_)

    def _users(self, wanted: HostPort) -> _Users:
        return self._in_use.get((wanted[1], wanted[2]), {})

    def _conflicts(self, wanted: HostPort, row: int) -> bool:
        address = wanted[0]
        in_use = self._users(wanted).get(row, ())
        return any(address == EVERY_ADDRESS or used in (EVERY_ADDRESS, address) for _, used in in_use)
