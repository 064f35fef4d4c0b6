"""Boards: a value for every topology domain, made of sums per domain, kept fresh, and read by row.

What a plugin concludes from sums, such as "may a pod go there", differs by domain and not by node. So a board keeps one
value per domain, looks again only at the domains in which a sum changed, and spreads the values over the rows that
somebody asks about.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic

import numpy as np
from numpy.typing import NDArray

from restow.model.cluster.topology_domains import Domains, DomainSums
from restow.model.cluster.rows import S, Which

_JOURNAL_LIMIT: Final = 4096


class DomainResults(ABC, Generic[S]):
    def __init__(self, domains: Domains, sums: Sequence[DomainSums], premises: Sequence[DomainSums] = ()) -> None:
        """`premises` are sums, perhaps of other domains, that `premises_changed` reads."""
        self.domains = domains
        self.sums = sums
        self._premises = premises
        self._premises_seen = [-1] * len(premises)
        self._positions = [-1] * len(sums)
        self._generation = -1
        self._version = -1
        self._values: NDArray[S]
        self.edition = 0
        """Changes when any value may have changed, or the journal begins anew."""
        self.journal: list[int] = []
        """The domains whose values changed within this edition, as of the last look."""

    @abstractmethod
    def compute(self) -> NDArray[S]:
        """The value of every domain."""
        ...

    @abstractmethod
    def value(self, domain: int) -> bool | int:
        """The value of one domain."""
        ...

    def premises_changed(self) -> bool:
        """Whether something that all values depend on changed since it was asked last."""
        return False

    def read(self, rows: Which) -> NDArray[S]:
        """The values of the domains that these rows are in."""
        values = self.values()
        spread: NDArray[S] = values[self.domains.of_row[rows]]
        return spread

    def seen_at(self, row: int) -> bool | int:
        """The value of a row's domain as of the last look."""
        value: bool | int = self._values.item(self.domains.of_row.item(row))
        return value

    def values(self) -> NDArray[S]:
        """The value of every domain as of now, not to be written to."""
        if self._nothing_happened():
            return self._values
        self.domains.refresh()
        news = self._news()
        if self.premises_changed() or news is None or self._version != self.domains.version:
            self._version = self.domains.version
            self._values = self.compute()
            self._begin_edition()
        else:
            self._take_note(news)
        self._premises_seen = [sums.position for sums in self._premises]
        return self._values

    def _begin_edition(self) -> None:
        self.edition += 1
        self.journal.clear()

    def _take_note(self, news: Sequence[int]) -> None:
        """Look again at the domains in which a sum changed."""
        for domain in dict.fromkeys(news):
            value = self.value(domain)
            if self._values.item(domain) != value:
                self._values[domain] = value
                self.journal.append(domain)
        if len(self.journal) > _JOURNAL_LIMIT:
            self._begin_edition()

    def _nothing_happened(self) -> bool:
        generation = self.domains.generation
        if generation != self._generation:
            self._generation = generation
            return False
        if self._premises and [sums.position for sums in self._premises] != self._premises_seen:
            return False
        return [sums.position for sums in self.sums] == self._positions

    def _news(self) -> Sequence[int] | None:
        """The domains in which some sum changed; None when that is not known."""
        news: list[int] = []
        known = True
        for number, sums in enumerate(self.sums):
            sums.refresh()
            if sums.position != self._positions[number]:
                changed = sums.changed_since(self._positions[number])
                self._positions[number] = sums.position
                known = known and changed is not None
                news += changed or ()
        return news if known else None


def all_true(boards: Sequence[DomainResults[np.bool_]], rows: Which) -> NDArray[np.bool_]:
    """Rows whose domains have a true value on every board; there must be one."""
    mask = boards[0].read(rows)
    for board in boards[1:]:
        mask &= board.read(rows)
    return mask


def all_true_at(boards: Sequence[DomainResults[np.bool_]], row: int) -> bool:
    """`all_true` for a single row."""
    return all(board.values().item(board.domains.of_row.item(row)) for board in boards)
