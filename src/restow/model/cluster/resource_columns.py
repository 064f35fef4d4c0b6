"""Listing: which resources have a column in the arrays over nodes, and which numbers stand for those that have none.

A resource gets a column when the first node offers some of it, and keeps it for good. What pods ask for and no node has
ever offered is *unlisted*: it has a number beyond all columns, by which everybody can tell that there is none. So a pod
may ask for whatever it likes, at no cost to others, and its names are forgotten when it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol
from weakref import WeakSet, WeakValueDictionary

from restow.model.resources import Vector

UNLISTED: Final = 2**32
"""The first number of a resource that has no column."""

Amounts = tuple[tuple[int, int], ...]
"""(number of the resource, amount) pairs in the order of numbers, zero amounts left out."""


class AsksByNumber(Protocol):
    """Who asks for resources by their numbers, and must learn when one of them has got a column."""

    def renumber(self) -> None: ...


class UnlistedResource:
    """A resource that no node has ever offered. It is known for as long as somebody asks for it."""

    __slots__ = ("__weakref__", "askers", "name", "number")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.askers: WeakSet[AsksByNumber] = WeakSet()


class ResourceColumns:
    """Numbers of resources by name. Those that have a column keep it for good; those that are unlisted have numbers
    from UNLISTED on, which never come again."""

    __slots__ = ("_columns", "_made", "_since_listed", "_unlisted", "_unlisted_by_number", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = list(names)
        """Of the columns."""
        self._columns = {name: column for column, name in enumerate(self.names)}
        self._unlisted: WeakValueDictionary[str, UnlistedResource] = WeakValueDictionary()
        self._unlisted_by_number: WeakValueDictionary[int, UnlistedResource] = WeakValueDictionary()
        self._since_listed: dict[int, int] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self.names)

    def find(self, name: str) -> int | None:
        """The column of a resource, None while it is unlisted."""
        return self._columns.get(name)

    def column(self, name: str) -> int:
        """The column of a resource, whether anybody offers it or not."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = len(self.names)
            self.names.append(name)
            self._list(name, column)
        return column

    def name(self, number: int) -> str:
        column = self._since_listed.get(number, number)
        return self.names[column] if column < UNLISTED else self._unlisted_by_number[column].name

    def columns(self, vector: Vector) -> Amounts:
        """What a node offers: everything has a column from now on."""
        return tuple(sorted((self.column(name), amount) for name, amount in vector.items() if amount))

    def amounts(self, vector: Vector) -> Amounts:
        """What is asked for: what is unlisted stays so, and comes last."""
        return tuple(sorted((self._number(name), amount) for name, amount in vector.items() if amount))

    def unlisted(self, vector: Vector) -> tuple[UnlistedResource, ...]:
        """The resources of a vector that no node has ever offered."""
        return tuple(self._unlisted_one(name) for name in sorted(vector) if name not in self._columns)

    def since_listed(self, number: int) -> int:
        """The column of what was unlisted when somebody learnt its number; the number itself if it still is."""
        return self._since_listed.get(number, number)

    def _number(self, name: str) -> int:
        column = self._columns.get(name)
        return self._unlisted_one(name).number if column is None else column

    def _unlisted_one(self, name: str) -> UnlistedResource:
        found = self._unlisted.get(name)
        if found is None:
            found = UnlistedResource(name, UNLISTED + self._made)
            self._made += 1
            self._unlisted[name] = self._unlisted_by_number[found.number] = found
        return found

    def _list(self, name: str, column: int) -> None:
        found = self._unlisted.pop(name, None)
        if found is not None:
            self._since_listed[found.number] = column
            for asker in list(found.askers):
                asker.renumber()
