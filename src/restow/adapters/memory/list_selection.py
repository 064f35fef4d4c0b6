"""Which objects a list or watch is about: label and field selectors, compiled once against one collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from restow.adapters.memory import errors
from restow.adapters.memory.store import Collection, Stored
from restow.model.selectors import FieldSelector, SelectorError, parse_field_selector, parse_label_selector


class Selection:
    """`matches` decides for one object; `name` and `indexed` are what the field selector pins, for a quick start."""

    def __init__(self, collection: Collection, namespace: str | None, query: Mapping[str, str]) -> None:
        tests: list[Callable[[Stored], bool]] = []
        self.name: str | None = None
        self.indexed: str | None = None
        if namespace is not None:
            tests.append(lambda stored: stored.namespace == namespace)
        try:
            if text := query.get("labelSelector"):
                labels = parse_label_selector(text)
                tests.append(lambda stored: labels.matches(stored.labels))
            if text := query.get("fieldSelector"):
                tests.extend(self._field_tests(collection, parse_field_selector(text)))
        except SelectorError as error:
            raise errors.bad_request(f"invalid selector: {error}") from None
        self.narrowed = len(tests) > (namespace is not None)
        self.matches = _all_of(tests)

    def _field_tests(self, collection: Collection, selector: FieldSelector) -> list[Callable[[Stored], bool]]:
        tests = []
        for label, negated, value in selector.terms:
            if not negated and label == "metadata.name":
                self.name = value
            elif not negated and collection.indexed(label):
                self.indexed = value
            tests.append(_comparison(_reader(collection, label), negated, value))
        return tests

    def candidates(self, collection: Collection, namespace: str | None) -> list[Stored] | None:
        """The few present objects that can match at all, when the selector pins them; None when it does not."""
        if self.name is not None and namespace is not None:
            stored = collection.get(namespace, self.name)
            return [stored] if stored else []
        return collection.with_index_value(self.indexed) if self.indexed is not None else None


def _reader(collection: Collection, label: str) -> Callable[[Stored], str]:
    if label == "metadata.name":
        return lambda stored: stored.name
    if label == "metadata.namespace":
        return lambda stored: stored.namespace
    number = collection.field_number(label)
    if number is None and not collection.fields:
        known = '"metadata.name", "metadata.namespace"'
        raise errors.bad_request(f'"{label}" is not a known field selector: only {known}')
    if number is None:
        raise errors.bad_request(f"field label not supported: {label}")
    return lambda stored: stored.fields[number]


def _comparison(read: Callable[[Stored], str], negated: bool, value: str) -> Callable[[Stored], bool]:
    if negated:
        return lambda stored: read(stored) != value
    return lambda stored: read(stored) == value


def _all_of(tests: list[Callable[[Stored], bool]]) -> Callable[[Stored], bool]:
    if not tests:
        return lambda _: True
    if len(tests) == 1:
        return tests[0]
    return lambda stored: all(test(stored) for test in tests)
