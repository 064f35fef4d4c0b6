"""One object that cannot be read stops nobody else's news, and is told once until it can be read again."""

from __future__ import annotations

import pytest

from restow.client.cache import Change
from restow.client.learning import Learner
from restow.model.objects import Node, ObjectMeta


def change(name: str) -> Change[Node]:
    return Change("MODIFIED", Node(metadata=ObjectMeta(name=name, uid=name)), None)


def test_what_cannot_be_read_is_told_once_until_it_can_be(caplog: pytest.LogCaptureFixture) -> None:
    learner, broken, learnt = Learner(), {"odd"}, []

    def handler(news: Change[Node]) -> None:
        if news.object.metadata.name in broken:
            raise KeyError("what is that?")
        learnt.append(news.object.metadata.name)

    for name in ("odd", "even", "odd", "odd"):
        learner.learn(handler, change(name))
    assert (learnt, len(caplog.records)) == (["even"], 1)
    broken.clear()
    learner.learn(handler, change("odd"))
    broken.add("odd")
    learner.learn(handler, change("odd"))
    assert (learnt, len(caplog.records)) == (["even", "odd"], 2)


def test_news_waits_while_somebody_decides() -> None:
    learner, learnt = Learner(), list[str]()

    def handler(news: Change[Node]) -> None:
        learnt.append(news.object.metadata.name)

    with learner.held():
        with learner.held():
            learner.learn(handler, change("a"))
        learner.learn(handler, change("b"))
        assert (learnt, learner.is_up_to_date) == ([], False)
    learner.learn(handler, change("c"))
    assert (learnt, learner.is_up_to_date) == (["a", "b", "c"], True)
