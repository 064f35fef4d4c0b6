"""Which resources have a column in the arrays over nodes, and which numbers stand for those without a column.

A resource gets a column when the first node offers some of it, and keeps it for good. A resource that pods request and
no node has ever offered is *unlisted*: it has a number beyond all columns, which says that there is none of it. So a
tenant cannot make the arrays grow by requesting invented resources, and their names are forgotten with the pods.
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
    """Something that stores numbers of resources, and must renew them when one of the resources gets a column."""

    def renumber(self) -> None: ...


class UnlistedResource:
    """A resource that no node has ever offered. It is known for as long as a shape requests it."""

    __slots__ = ("__weakref__", "name", "number", "numbered_by")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.numbered_by: WeakSet[AsksByNumber] = WeakSet()


class ResourceColumns:
    """Numbers of resources by name. A column is kept for good; unlisted resources have numbers from UNLISTED on, which
    are never used again."""

    __slots__ = ("_column_of", "_columns", "_made", "_unlisted", "_unlisted_by_number", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = list(names)
        """The names of the columns."""
        self._columns = {name: column for column, name in enumerate(self.names)}
        self._unlisted: WeakValueDictionary[str, UnlistedResource] = WeakValueDictionary()
        self._unlisted_by_number: WeakValueDictionary[int, UnlistedResource] = WeakValueDictionary()
        self._column_of: dict[int, int] = {}
        self._made = 0

    def __len__(self) -> int:
        return len(self.names)

    def find(self, name: str) -> int | None:
        """The column of a resource, None while it is unlisted."""
        return self._columns.get(name)

    def column(self, name: str) -> int:
        """The column of a resource, which is made if no node offers it."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = len(self.names)
            self.names.append(name)
            self._list(name, column)
        return column

    def name(self, number: int) -> str:
        column = self._column_of.get(number, number)
        return self.names[column] if column < UNLISTED else self._unlisted_by_number[column].name

    def columns(self, vector: Vector) -> Amounts:
        """What a node offers, by column: every resource of it has a column from now on."""
        return tuple(sorted((self.column(name), amount) for name, amount in vector.items() if amount))

    def amounts(self, vector: Vector) -> Amounts:
        """What is requested, by number: unlisted resources stay unlisted, and come last."""
        return tuple(sorted((self._number(name), amount) for name, amount in vector.items() if amount))

    def unlisted_resources(self, vector: Vector) -> tuple[UnlistedResource, ...]:
        """The resources of a vector that no node has ever offered."""
        return tuple(self._unlisted_one(name) for name in sorted(vector) if name not in self._columns)

    def column_or_number(self, number: int) -> int:
        """The column that a resource has got since it had this number; the number itself while it is unlisted."""
        return self._column_of.get(number, number)

    def _number(self, name: str) -> int:
        column = self._columns.get(name)
        return self._unlisted_one(name).number if column is None else column

    def _unlisted_one(self, name: str) -> UnlistedResource:
        resource = self._unlisted.get(name)
        if resource is None:
            resource = UnlistedResource(name, UNLISTED + self._made)
            self._made += 1
            self._unlisted[name] = self._unlisted_by_number[resource.number] = resource
        return resource

    def _list(self, name: str, column: int) -> None:
        resource = self._unlisted.pop(name, None)
        if resource is not None:
            self._column_of[resource.number] = column
            for user in list(resource.numbered_by):
                user.renumber()
