"""The HTML report of a plan: its texts, and that no name in a cluster can inject markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from restow.model.objects import Container, Node, NodeSpec, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from restow.output.html_report import main_resource, pods_after, render_page
from restow.planning.plan import Move, Place, Plan, PlanRefusal


def node(name: str, **offers: str) -> Node:
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(), status=NodeStatus(allocatable={"cpu": "8", **offers}))


def pod(name: str, where: str | None = None, **requests: str) -> Pod:
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": "2", **requests}))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"), spec=PodSpec(containers=[container], node_name=where)
    )


NODES = [node("n1"), node("n2"), node("n3")]
PODS = [pod("web", "n1"), pod("db", "n2"), pod("other", "n3"), pod("waiting")]
PLAN = Plan(
    strategy="optimal",
    objective="pending",
    moves=(Move(order=1, wave=1, namespace="default", pod="web", source="n1", target="n2"),),
    places=(Place(namespace="default", pod="waiting", node="n1"),),
    before={"freeNodes": 0, "placedPods": 0, "pendingPods": 1},
    after={"freeNodes": 1, "placedPods": 1, "pendingPods": 1, "gap": 50.0},
    bound=2,
    refusals=(PlanRefusal(namespace="default", pod="db", reason="it is <b>bare</b>"),),
)


class PageReader(HTMLParser):
    """Collects text, tags, and the URLs that a browser would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(plan: Plan = PLAN, pods: list[Pod] = PODS, resource: str = "cpu") -> PageReader:
    return PageReader(render_page(plan, NODES, pods, resource=resource, made="2026-11-16T08:00:00Z"))


@pytest.mark.parametrize(
    "text",
    [
        "1 move in 1 wave, 1 pending pod placed",
        "1 pending pods with a place; at most 50 % below the optimum: "
        "no plan within the move limit reaches more than 2",
        "0 of 1",
        "default/web",
        "Pending pods that fit after the moves",
        "it is <b>bare</b>",
        "1 node unchanged",
    ],
)
def test_page_has_the_text(text: str) -> None:
    assert text in read().words


def test_page_loads_nothing() -> None:
    page = read()
    assert not page.fetched
    assert not {"script", "link", "img", "iframe"} & set(page.tags)


def test_markup_in_names_is_escaped() -> None:
    hostile = "<script>alert(1)</script>"
    move = Move(order=1, wave=1, namespace="default", pod=hostile, source="n1", target='n2"><script>')
    assert "script" not in read(Plan(strategy=hostile, moves=(move,)), [pod(hostile, "n1")]).tags


def test_pods_after_the_plan_are_on_their_target_nodes() -> None:
    assert [pod.spec.node_name for pod in pods_after(PLAN, PODS)] == ["n2", "n2", "n3", "n1"]


def test_empty_plan_has_a_page() -> None:
    assert "no moves" in read(Plan(strategy="balance"), []).words


@pytest.mark.parametrize(
    ("plan", "shape", "resource"),
    [
        (Plan(strategy="optimal"), (), "cpu"),
        (Plan(strategy="optimal"), ("memory",), "memory"),
        (PLAN, (), "nvidia.com/gpu"),
    ],
    ids=["cpu by default", "first resource of the shape", "extended resource of placed pods"],
)
def test_main_resource(plan: Plan, shape: tuple[str, ...], resource: str) -> None:
    nodes = [node("n1", **{"nvidia.com/gpu": "8"})]
    assert main_resource(plan, nodes, [pod("waiting", **{"nvidia.com/gpu": "8"})], shape) == resource


def test_pods_without_a_namespace_are_in_default() -> None:
    bare = [replace(pod, metadata=replace(pod.metadata, namespace=None)) for pod in PODS]
    assert [pod.spec.node_name for pod in pods_after(PLAN, bare)] == ["n2", "n2", "n3", "n1"]


def test_moving_pods_are_striped_on_source_and_target() -> None:
    html = render_page(PLAN, NODES, PODS, resource="cpu", made="2026-11-16T08:00:00Z")
    rows = [row for row in html.split("<tr>") if "class=bar" in row]
    striped = {row.split("</th>")[0].rpartition(">")[2]: row.count(' moves"') for row in rows}
    assert striped == {"n1": 2, "n2": 1, "n3": 0}


def test_nodes_are_sorted_by_gained_then_lost_capacity() -> None:
    moves = [("a", "n1", "n2"), ("b", "n1", "n2"), ("c", "n3", "n2")]
    plan = Plan(
        strategy="optimal",
        moves=tuple(
            Move(order=number, wave=1, namespace="default", pod=name, source=source, target=target)
            for number, (name, source, target) in enumerate(moves, start=1)
        ),
    )
    html = render_page(plan, NODES, [pod(name, source) for name, source, _ in moves], resource="cpu", made="")
    assert re.findall(r"<th scope=row>(n\d)", html) == ["n1", "n3", "n2"]


def test_drawing_has_all_nodes_before_and_after() -> None:
    html = render_page(PLAN, NODES, PODS, resource="cpu", made="2026-11-16T08:00:00Z")
    assert 'd="M0,75.0 L1,75.0 L1,75.0 L2,75.0 L2,75.0 L3,75.0 L3,100 L0,100 Z"' in html
    assert 'd="M0,50.0 L1,50.0 L1,75.0 L2,75.0 L2,75.0 L3,75.0"' in html


def test_bar_titles_are_in_printed_units() -> None:
    html = render_page(PLAN, NODES, [pod("web", "n1", cpu="1500m")], resource="cpu", made="2026-11-16T08:00:00Z")
    assert ' 1.5"></i>' in html and ' 1500"></i>' not in html
