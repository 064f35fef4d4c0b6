"""Bars of nodes: known workloads keep their colour and letter from one picture to the next."""

from __future__ import annotations

from restow.output.node_bars import NodeUse, brushes_of, legend


def use(**requested: int) -> NodeUse:
    return NodeUse(node="n1", allocatable=8000, requested=requested, pods=len(requested))


def test_new_workload_does_not_change_the_brush_of_known_ones() -> None:
    known = ("api", "web", "train")
    before, after = brushes_of([use(api=1, web=1)], True, known), brushes_of([use(api=1, train=1, web=1)], True, known)
    assert before.items() <= after.items()
    assert "AA api  BB web  CC other" in legend([use(api=1, other=1, web=1)], coloured=False, known=known[:2]).plain
