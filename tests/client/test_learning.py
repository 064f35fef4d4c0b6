"""One object that cannot be read stops nobody else's news, and is told once until it can be read again."""

from __future__ import annotations

import pytest

from restow.client.cache import Change
from restow.client.change_dispatcher import ChangeDispatcher
from restow.model.objects import Node, ObjectMeta


def change(name: str) -> Change[Node]:
    return Change("MODIFIED", Node(metadata=ObjectMeta(name=name, uid=name)), None)


def test_what_cannot_be_read_is_told_once_until_it_can_be(caplog: pytest.LogCaptureFixture) -> None:
    learner, broken, learnt = ChangeDispatcher(), {"odd"}, []

    def handler(news: Change[Node]) -> None:
        if news.object.metadata.name in broken:
            raise KeyError("what is that?")
        learnt.append(news.object.metadata.name)

    for name in ("odd", "even", "odd", "odd"):
        learner.dispatch(handler, change(name))
    assert (learnt, len(caplog.records)) == (["even"], 1)
    broken.clear()
    learner.dispatch(handler, change("odd"))
    broken.add("odd")
    learner.dispatch(handler, change("odd"))
    assert (learnt, len(caplog.records)) == (["even", "odd"], 2)


def test_news_waits_while_somebody_decides() -> None:
    learner, learnt = ChangeDispatcher(), list[str]()

    def handler(news: Change[Node]) -> None:
        learnt.append(news.object.metadata.name)

    with learner.paused():
        with learner.paused():
            learner.dispatch(handler, change("a"))
        learner.dispatch(handler, change("b"))
        assert (learnt, learner.has_delivered_all) == ([], False)
    learner.dispatch(handler, change("c"))
    assert (learnt, learner.has_delivered_all) == (["a", "b", "c"], True)
