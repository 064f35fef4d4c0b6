"""Host ports: who holds which port on which row.

Goes in: occupants with host ports, as they come and go. Comes out: which rows have all of a pod's host ports free. A
port is held per address and protocol; on 0.0.0.0 it is held on every address. A look costs the holders of the very
ports asked about, so pods without host ports cost nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from restow.model.cluster.rows import Mask, Rows, Which
from restow.model.cluster.pod_shapes import HostPort
from restow.model.cluster.undo_log import UndoLog

EVERY_ADDRESS = "0.0.0.0"

_Holders = dict[int, set[tuple[str, str]]]
"""By row: (key of the occupant, address)."""


class HostPorts:
    __slots__ = ("_held", "_log", "_rows")

    def __init__(self, log: UndoLog, rows: Rows) -> None:
        self._log = log
        self._rows = rows
        self._held: dict[tuple[str, int], _Holders] = {}

    def take(self, row: int, key: str, ports: Iterable[HostPort]) -> None:
        """Count the ports of an occupant as held on a row."""
        for address, protocol, port in ports:
            self._held.setdefault((protocol, port), {}).setdefault(row, set()).add((key, address))
        self._log.record(self.release, row, key, ports)

    def release(self, row: int, key: str, ports: Iterable[HostPort]) -> None:
        """The inverse of `take`."""
        for address, protocol, port in ports:
            holders = self._held[protocol, port]
            holders[row].remove((key, address))
            if not holders[row]:
                del holders[row]
            if not holders:
                del self._held[protocol, port]
        self._log.record(self.take, row, key, ports)

    def vacant(self, wanted: Iterable[HostPort], rows: Which) -> Mask:
        """Rows where nobody holds any of these ports."""
        if isinstance(rows, slice):
            mask = np.ones(self._rows.size, np.bool_)
            mask[[row for port in wanted for row in self._holders(port) if self._conflicts(port, row)]] = False
            return mask[rows]
        return np.array([not any(self._conflicts(port, row) for port in wanted) for row in rows.tolist()], np.bool_)

    def _holders(self, wanted: HostPort) -> _Holders:
        return self._held.get((wanted[1], wanted[2]), {})

    def _conflicts(self, wanted: HostPort, row: int) -> bool:
        address = wanted[0]
        held = self._holders(wanted).get(row, ())
        return any(address == EVERY_ADDRESS or holding in (EVERY_ADDRESS, address) for _, holding in held)
