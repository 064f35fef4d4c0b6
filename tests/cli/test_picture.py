"""Bars by workload: who is known keeps colour and letter from one picture to the next."""

from __future__ import annotations

from restow.showing.picture import NodeUse, brushes_of, legend


def use(**requested: int) -> NodeUse:
    return NodeUse(node="n1", allocatable=8000, requested=requested, pods=len(requested))


def test_a_newcomer_does_not_take_the_brush_of_anybody_known() -> None:
    known = ("api", "web", "train")
    before, after = brushes_of([use(api=1, web=1)], True, known), brushes_of([use(api=1, train=1, web=1)], True, known)
    assert before.items() <= after.items()
    assert "AA api  BB web  CC other" in legend([use(api=1, other=1, web=1)], coloured=False, known=known[:2]).plain
