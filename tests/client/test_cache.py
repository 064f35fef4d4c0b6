"""The cache: which lists and events change it, and which are outdated."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.client.cache import Cache, Change, by_namespace, by_node, is_older
from restow.client.verbs import EventType, WatchEvent
from restow.model.object_key import key_of
from restow.model.objects import Pod
from restow.model.wire import convert_document
from tests.client.scripted_api import pod


def make(name: str, version: int, uid: str | None = None, node: str | None = None) -> Pod:
    return convert_document(Pod, pod(name, version, uid, node))


def summary(changes: list[Change[Pod]]) -> list[tuple[str, str, str]]:
    return [(c.type, c.object.metadata.uid, c.object.metadata.resource_version) for c in changes]


@pytest.mark.parametrize(
    ("version", "than", "or_same", "older"),
    [
        pytest.param("9", "10", False, True, id="numbers are compared as numbers"),
        pytest.param("10", "10", False, False, id="the same is not older"),
        pytest.param("10", "10", True, True, id="unless the same counts"),
        pytest.param("abc", "10", False, False, id="what is no number is never older"),
        pytest.param("abc", "abc", True, True, id="but it can be the same"),
        pytest.param("1", None, True, False, id="nothing is older than nothing"),
    ],
)
def test_is_older_compares_versions_as_numbers(version: str, than: str | None, or_same: bool, older: bool) -> None:
    assert is_older(version, than, or_same=or_same) is older


NEWS = [
    pytest.param("MODIFIED", make("a", 6), [("MODIFIED", "uid-a", "6")], id="newer is believed"),
    pytest.param("MODIFIED", make("a", 5), [], id="a repetition changes nothing"),
    pytest.param("MODIFIED", make("a", 4), [], id="older is ignored"),
    pytest.param("ADDED", make("b", 4), [], id="what the listing settled is ignored"),
    pytest.param("ADDED", make("b", 6), [("ADDED", "uid-b", "6")], id="the unknown is added"),
    pytest.param("DELETED", make("a", 7), [("DELETED", "uid-a", "7")], id="a deletion is the last state"),
    pytest.param("DELETED", make("b", 7), [], id="deleting the unknown is no news"),
    pytest.param("DELETED", make("a", 3, "earlier"), [], id="a namesake deleted earlier is no news"),
    pytest.param(
        "DELETED", make("a", 9, "later"), [("DELETED", "uid-a", "5")], id="a later namesake deleted: both are gone"
    ),
    pytest.param(
        "ADDED",
        make("a", 8, "later"),
        [("DELETED", "uid-a", "5"), ("ADDED", "later", "8")],
        id="a namesake is another object",
    ),
    pytest.param("BOOKMARK", make("", 12), [], id="a bookmark changes nothing"),
]


@pytest.mark.parametrize(("type_", "item", "expected"), NEWS)
def test_event_after_a_list_at_version_5(type_: EventType, item: Pod, expected: list[tuple[str, str, str]]) -> None:
    cache: Cache[Pod] = Cache()
    cache.replace([make("a", 5)], "5")
    assert summary(cache.apply(WatchEvent(type_, item))) == expected


def test_late_event_does_not_resurrect_a_deleted_object() -> None:
    cache: Cache[Pod] = Cache()
    cache.replace([], "1")
    events: list[tuple[EventType, int]] = [("ADDED", 2), ("DELETED", 3), ("ADDED", 2)]
    for type_, version in events:
        cache.apply(WatchEvent(type_, make("a", version)))
    assert len(cache) == 0


def test_object_that_left_a_selection_may_come_back() -> None:
    cache: Cache[Pod] = Cache()
    cache.replace([make("a", 1)], "1")
    cache.apply(WatchEvent("DELETED", make("a", 3)))
    assert summary(cache.apply(WatchEvent("ADDED", make("a", 4)))) == [("ADDED", "uid-a", "4")]


def test_list_returns_deleted_and_changed_objects() -> None:
    cache: Cache[Pod] = Cache()
    cache.replace([make("a", 1), make("b", 2), make("c", 3)], "3")
    changes = cache.replace([make("a", 1), make("b", 7), make("d", 8)], "9")
    assert summary(changes) == [("MODIFIED", "uid-b", "7"), ("ADDED", "uid-d", "8"), ("DELETED", "uid-c", "3")]


def test_stale_list_does_not_resurrect_or_rewind() -> None:
    cache: Cache[Pod] = Cache()
    cache.replace([make("a", 1), make("b", 2)], "2")
    cache.apply(WatchEvent("DELETED", make("a", 5)))
    cache.apply(WatchEvent("MODIFIED", make("b", 6)))
    cache.apply(WatchEvent("ADDED", make("c", 7)))
    assert summary(cache.replace([make("a", 1), make("b", 2)], "3")) == []
    assert sorted((p.metadata.name, p.metadata.resource_version) for p in cache) == [("b", "6"), ("c", "7")]


def test_reset_takes_the_list_whatever_its_version() -> None:
    cache: Cache[Pod] = Cache()
    cache.replace([make("a", 100), make("b", 101)], "200")
    assert summary(cache.replace([make("a", 3)], "5", reset=True)) == [
        ("MODIFIED", "uid-a", "3"),
        ("DELETED", "uid-b", "101"),
    ]
    assert cache.version == "5"


def test_unreadable_object_keeps_its_last_form() -> None:
    cache: Cache[Pod] = Cache()
    cache.replace([make("a", 1)], "1")
    assert cache.replace([], "2", keep=[("shop", "a")]) == []


def test_indexes_follow_the_objects() -> None:
    cache: Cache[Pod] = Cache({"node": by_node, "namespace": by_namespace})
    cache.replace([make("a", 1, node="n1"), make("b", 2), make("c", 3, node="n1")], "3")
    assert [p.metadata.name for p in cache.find("node", "n1")] == ["a", "c"]
    cache.apply(WatchEvent("MODIFIED", make("b", 4, node="n2")))
    cache.apply(WatchEvent("DELETED", make("a", 5)))
    assert [p.metadata.name for p in cache.find("node", "n1")] == ["c"]
    assert [len(cache.find("node", name)) for name in ("n2", "")] == [1, 0]
    assert len(cache.find("namespace", "shop")) == 2


@st.composite
def histories(draw: st.DrawFn) -> list[WatchEvent[Pod]]:
    """The history of a server: creations, changes and deletions of a few names, one version after another."""
    alive: dict[str, str] = {}
    events = []
    for version in range(1, draw(st.integers(1, 40)) + 1):
        name = draw(st.sampled_from("abcd"))
        if name not in alive:
            alive[name] = f"{name}{version}"
            events.append(WatchEvent("ADDED", make(name, version, alive[name])))
        elif draw(st.booleans()):
            events.append(WatchEvent("MODIFIED", make(name, version, alive[name])))
        else:
            events.append(WatchEvent("DELETED", make(name, version, alive.pop(name))))
    return events


def state_after(events: list[WatchEvent[Pod]]) -> dict[tuple[str, str], str]:
    state: dict[tuple[str, str], str] = {}
    for item in events:
        state.pop(key_of(item.object), None)
        if item.type != "DELETED":
            state[key_of(item.object)] = item.object.metadata.resource_version
    return state


@settings(max_examples=50, deadline=None)
@given(histories(), st.data())
def test_repetitions_and_relistings_never_move_the_cache_back(
    events: list[WatchEvent[Pod]], data: st.DataObject
) -> None:
    """Between the real events come replays of earlier ones and listings of any age; the truth remains."""
    cache: Cache[Pod] = Cache({"namespace": by_namespace})
    mirror: dict[tuple[str, str], Pod] = {}
    cache.replace([], "0")
    for position, item in enumerate(events):
        changes = cache.apply(item)
        replayed = data.draw(st.none() | st.integers(0, position))
        if replayed is not None:
            changes += cache.apply(events[replayed])
        listed = data.draw(st.none() | st.integers(0, position))
        if listed is not None:
            seen = state_after(events[: listed + 1])
            by_version = {e.object.metadata.resource_version: e.object for e in events}
            changes += cache.replace([by_version[version] for version in seen.values()], str(listed + 1))
        for change in changes:
            assert mirror.get(key_of(change.object)) == change.old
            mirror.pop(key_of(change.object), None)
            if change.type != "DELETED":
                mirror[key_of(change.object)] = change.object
        truth = state_after(events[: position + 1])
        assert {key_of(p): p.metadata.resource_version for p in cache} == truth
        assert {key: p.metadata.resource_version for key, p in mirror.items()} == truth
        assert len(cache.find("namespace", "shop")) == len(truth)
