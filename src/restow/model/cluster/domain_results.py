"""Domain results: a value for every topology domain, derived from sums per domain, kept up to date and read by row.

What a plugin concludes from sums, such as "may a pod go there", differs by domain and not by node. So one value is kept
per domain, only the domains in which a sum changed are worked out again, and the values are spread over the rows that a
caller asks about.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.rows import S, Which
from restow.model.cluster.topology_domains import Domains, DomainSums

_JOURNAL_LIMIT: Final = 4096


class DomainResults(ABC, Generic[S]):
    def __init__(self, domains: Domains, sums: Sequence[DomainSums], premises: Sequence[DomainSums] = ()) -> None:
        """`premises` are sums, perhaps of other domains, that all values depend on: `premises_changed` reads them."""
        self.domains = domains
        self.sums = sums
        self._premises = premises
        self._premises_seen = [-1] * len(premises)
        self._positions = [-1] * len(sums)
        self._generation = -1
        self._version = -1
        self._values: NDArray[S]
        self.edition = 0
        """Changes when any value may have changed, or when the journal is cleared."""
        self.journal: list[int] = []
        """The domains with values that changed within this edition, as of the last read."""

    @abstractmethod
    def compute(self) -> NDArray[S]:
        """The value of every domain."""
        ...

    @abstractmethod
    def value(self, domain: int) -> bool | int:
        """The value of one domain."""
        ...

    def premises_changed(self) -> bool:
        """Whether something that all values depend on changed since the last call."""
        return False

    def read(self, rows: Which) -> NDArray[S]:
        """The values of the domains that these rows are in."""
        values = self.values()
        spread: NDArray[S] = values[self.domains.of_row[rows]]
        return spread

    def seen_at(self, row: int) -> bool | int:
        """The value of a row's domain as of the last read."""
        value: bool | int = self._values.item(self.domains.of_row.item(row))
        return value

    def values(self) -> NDArray[S]:
        """The value of every domain as of now; not to be written to."""
        if self._is_unchanged():
            return self._values
        self.domains.refresh()
        changed = self._changed_domains()
        if self.premises_changed() or changed is None or self._version != self.domains.version:
            self._version = self.domains.version
            self._values = self.compute()
            self._begin_edition()
        else:
            self._update_values(changed)
        self._premises_seen = [sums.position for sums in self._premises]
        return self._values

    def _begin_edition(self) -> None:
        self.edition += 1
        self.journal.clear()

    def _update_values(self, changed: Sequence[int]) -> None:
        """Work out the values of the domains in which a sum changed."""
        for domain in dict.fromkeys(changed):
            value = self.value(domain)
            if self._values.item(domain) != value:
                self._values[domain] = value
                self.journal.append(domain)
        if len(self.journal) > _JOURNAL_LIMIT:
            self._begin_edition()

    def _is_unchanged(self) -> bool:
        generation = self.domains.generation
        if generation != self._generation:
            self._generation = generation
            return False
        if self._premises and [sums.position for sums in self._premises] != self._premises_seen:
            return False
        return [sums.position for sums in self.sums] == self._positions

    def _changed_domains(self) -> Sequence[int] | None:
        """The domains in which some sum changed; None when the journal does not reach back that far."""
        changed: list[int] = []
        is_known = True
        for number, sums in enumerate(self.sums):
            sums.refresh()
            if sums.position != self._positions[number]:
                recent = sums.changed_since(self._positions[number])
                self._positions[number] = sums.position
                is_known = is_known and recent is not None
                changed += recent or ()
        return changed if is_known else None


def all_true(results: Sequence[DomainResults[np.bool_]], rows: Which) -> NDArray[np.bool_]:
    """The rows of domains that have a true value in all of these results; there must be one result at least."""
    mask = results[0].read(rows)
    for result in results[1:]:
        mask &= result.read(rows)
    return mask


def all_true_at(results: Sequence[DomainResults[np.bool_]], row: int) -> bool:
    """`all_true` for a single row."""
    return all(result.values().item(result.domains.of_row.item(row)) for result in results)
