"""ChangeDispatcher: an object that a handler fails on is logged once and stops no other changes; pauses."""

from __future__ import annotations

import pytest

from restow.client.cache import Change
from restow.client.change_dispatcher import ChangeDispatcher
from restow.model.objects import Node, ObjectMeta


def change(name: str) -> Change[Node]:
    return Change("MODIFIED", Node(metadata=ObjectMeta(name=name, uid=name)), None)


def test_failing_object_is_logged_once_until_it_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher, broken, handled = ChangeDispatcher(), {"odd"}, []

    def handler(item: Change[Node]) -> None:
        if item.object.metadata.name in broken:
            raise KeyError("what is that?")
        handled.append(item.object.metadata.name)

    for name in ("odd", "even", "odd", "odd"):
        dispatcher.dispatch(handler, change(name))
    assert (handled, len(caplog.records)) == (["even"], 1)
    broken.clear()
    dispatcher.dispatch(handler, change("odd"))
    broken.add("odd")
    dispatcher.dispatch(handler, change("odd"))
    assert (handled, len(caplog.records)) == (["even", "odd"], 2)


def test_changes_wait_while_paused() -> None:
    dispatcher, handled = ChangeDispatcher(), list[str]()

    def handler(item: Change[Node]) -> None:
        handled.append(item.object.metadata.name)

    with dispatcher.paused():
        with dispatcher.paused():
            dispatcher.dispatch(handler, change("a"))
        dispatcher.dispatch(handler, change("b"))
        assert (handled, dispatcher.has_delivered_all) == ([], False)
    dispatcher.dispatch(handler, change("c"))
    assert (handled, dispatcher.has_delivered_all) == (["a", "b", "c"], True)
