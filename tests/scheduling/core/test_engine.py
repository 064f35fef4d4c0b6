"""One cycle: order, codes, and the best node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from restow.model.cluster import Mask, Which
from restow.model.objects import Pod, PodStatus, Taint
from restow.model.snapshot import Snapshot
from restow.scheduling.accelerated import NodeNameFilter
from restow.scheduling.engine import Engine
from restow.scheduling.framework import (
    SKIP,
    SUCCESS,
    Code,
    Cycle,
    Plugin,
    Scores,
    Verdict,
    error,
    unresolvable,
    unschedulable,
    wait,
)
from restow.scheduling.ranking.score_cache import ScoreOutOfRange
from restow.scheduling.schedule_result import NodeFound, NoNodeFound, PermitResult
from tests.model.cluster.builders import node, pod
from tests.narrowing import present
from tests.scheduling.core.sample_plugins import (
    AnswersAsTold,
    NodeEligible,
    OnePodPerNode,
    PostFilterAsTold,
    RecordsCalls,
    RoomFit,
    ScoresLabelNumber,
    cluster,
    cycle,
    node_of,
    nodes,
    refused,
)


def place(engine: Engine, snapshot: Snapshot, one: Pod | None = None, **options: Any) -> NodeFound | NoNodeFound:
    return engine.find_node(cycle(snapshot, one), **options)


def test_emptiest_node_wins_and_ties_are_broken_by_name() -> None:
    snapshot = cluster(*nodes(3), pods=[pod("a", on="n0")])
    assert place(Engine([RoomFit()]), snapshot) == NodeFound("n1", 1, 100)


def test_names_break_ties_whatever_the_order_of_nodes() -> None:
    assert node_of(place(Engine([RoomFit()]), cluster(node("b"), node("c"), node("a")))) == "a"


def test_skipped_filter_does_not_run() -> None:
    says = AnswersAsTold(SKIP, refuses=["n0"])
    assert node_of(place(Engine([says]), cluster(*nodes(1)))) == "n0"
    assert says.asked == ["pre_filter"]


@pytest.mark.parametrize(
    ("verdict", "later_asked", "code"),
    [
        pytest.param(unresolvable("hopeless"), [], Code.UNRESOLVABLE, id="unresolvable ends it at once"),
        pytest.param(unschedulable("no"), ["pre_filter"], Code.UNSCHEDULABLE, id="unschedulable lets the others look"),
        pytest.param(error("broke"), [], Code.ERROR, id="an error ends it as an error"),
    ],
)
def test_pre_filter_verdict_stops_the_cycle_as_in_kube_scheduler(
    verdict: Verdict, later_asked: list[str], code: Code
) -> None:
    later = AnswersAsTold()
    result = refused(place(Engine([AnswersAsTold(verdict, name="First"), later]), cluster(*nodes(2))))
    assert isinstance(result, NoNodeFound)
    assert (result.verdict.code, result.plugins, later.asked) == (code, frozenset({"First"}), later_asked)


def test_first_unschedulable_pre_filter_is_reported() -> None:
    result = refused(
        place(Engine([AnswersAsTold(unschedulable("a")), AnswersAsTold(unschedulable("b"))]), cluster(*nodes(2)))
    )
    assert result.message == "0/2 nodes are available: a."


def test_node_counts_for_the_first_plugin_that_refuses_it() -> None:
    first, second = AnswersAsTold(refuses=["n0"], name="First"), AnswersAsTold(refuses=["n0", "n1"], name="Second")
    result = refused(place(Engine([first, second]), cluster(*nodes(2))))
    assert result.message == "0/2 nodes are available: 1 First refuses, 1 Second refuses."
    assert result.plugins == {"First", "Second"}


class ExcludesByName(AnswersAsTold, NodeNameFilter):
    """Excludes before any filter runs the nodes that its filter refuses."""

    def excluded_by_name(self, cycle: Cycle, rows: Which) -> Mask:
        return ~self.filter(cycle, rows)


def test_node_excluded_by_name_is_counted_before_the_filters_run() -> None:
    first, second = AnswersAsTold(refuses=["n0", "n1"], name="First"), ExcludesByName(refuses=["n1"], name="Second")
    result = refused(place(Engine([first, second]), cluster(*nodes(2))))
    assert result.message == "0/2 nodes are available: 1 First refuses, 1 Second refuses."


def test_each_reason_of_a_plugin_is_counted() -> None:
    result = refused(
        place(
            Engine([RoomFit()]), cluster(*nodes(2, allocatable={"cpu": "1", "memory": "1Gi"})), pod("p", {"cpu": "2"})
        )
    )
    assert result.message == "0/2 nodes are available: 2 Insufficient cpu, 2 Too many pods."


def test_cluster_without_nodes_is_named_in_the_refusal() -> None:
    message = "0/0 nodes are available: no nodes available to schedule pods."
    assert refused(place(Engine([RoomFit()]), cluster())).message == message


@pytest.mark.parametrize(
    ("nominated", "expected"), [("n2", "n2"), ("n1", "n0"), ("gone", "n0")], ids=["fits", "is full", "is gone"]
)
def test_nominated_node_is_tried_first(nominated: str, expected: str) -> None:
    snapshot = cluster(*nodes(3), pods=[pod("full", {"cpu": "4"}, on="n1")])
    asking = replace(pod("p"), status=PodStatus(nominated_node_name=nominated))
    assert node_of(place(Engine([RoomFit()]), snapshot, asking)) == expected


def test_nominated_node_must_pass_every_filter() -> None:
    engine = Engine([RoomFit(), NodeEligible(), OnePodPerNode()])
    snapshot = cluster(*nodes(2), pods=[pod("a", on="n1", labels={"app": "x"})])
    asking = replace(pod("p", labels={"app": "x"}), status=PodStatus(nominated_node_name="n1"))
    assert node_of(place(engine, snapshot, asking)) == "n0"
    assert engine.fits(cycle(snapshot, pod("q")), "n1")
    assert not engine.fits(cycle(snapshot, pod("r", labels={"app": "x"})), "n1")


def test_normalised_scores_compare_feasible_nodes_only() -> None:
    snapshot = cluster(
        node("a", labels={"n": "1"}), node("b", labels={"n": "4"}), node("c", labels={"n": "9"}, unschedulable=True)
    )
    assert place(Engine([RoomFit(), NodeEligible(), ScoresLabelNumber()], {"Numbered": 2}), snapshot) == NodeFound(
        "b", 1, 300
    )


def test_weights_of_score_plugins_decide() -> None:
    snapshot = cluster(
        node("a", labels={"n": "4"}), node("b", labels={"n": "2"}), pods=[pod("x", {"cpu": "3"}, on="a")]
    )
    assert node_of(place(Engine([RoomFit(), ScoresLabelNumber()], {"Numbered": 1}), snapshot)) == "b"
    assert node_of(place(Engine([RoomFit(), ScoresLabelNumber()], {"Numbered": 3}), snapshot)) == "a"


def test_score_out_of_range_raises() -> None:
    class Wild(ScoresLabelNumber):
        def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
            return raw * 101

    with pytest.raises(ScoreOutOfRange, match="Numbered"):
        place(Engine([Wild()]), cluster(node("a", labels={"n": "1"}), node("b", labels={"n": "2"})))


def test_ranking_sees_changes_of_nodes() -> None:
    engine, snapshot = Engine([NodeEligible(), RoomFit()]), cluster(*nodes(2))
    assert node_of(place(engine, snapshot)) == "n0"
    snapshot.apply_node(node("n0", taints=[Taint(key="k", effect="NoSchedule")]))
    assert node_of(place(engine, snapshot)) == "n1"
    snapshot.remove_node(node("n1"))
    assert refused(place(engine, snapshot)).message == "0/1 nodes are available: 1 node(s) were not eligible."
    snapshot.apply_node(node("a"))
    assert node_of(place(engine, snapshot)) == "a"


def test_rankings_start_anew_with_another_snapshot() -> None:
    engine = Engine([RoomFit()])
    assert node_of(place(engine, cluster(*nodes(2), pods=[pod("x", on="n0")]))) == "n1"
    assert node_of(place(engine, cluster(*nodes(2), pods=[pod("x", on="n1")]))) == "n0"


def test_all_key_blocks_are_searched_for_a_node_that_cluster_filters_accept() -> None:
    taken = [pod(f"x{number}", {"cpu": "1m"}, on=f"n{number}", labels={"app": "x"}) for number in range(699)]
    result = place(
        Engine([RoomFit(), OnePodPerNode()]), cluster(*nodes(700), pods=taken), pod("p", labels={"app": "x"})
    )
    assert node_of(result) == "n699"


def test_post_filter_gets_every_refusal_and_its_reason_is_shown_last() -> None:
    tries = PostFilterAsTold(unschedulable("preemption would not help"))
    result = refused(place(Engine([AnswersAsTold(refuses=["n0"]), tries]), cluster(*nodes(1))))
    assert list(tries.seen) == ["Says"]
    assert result.message == "0/1 nodes are available: 1 Says refuses. preemption would not help"


@pytest.mark.parametrize(
    ("tries", "message"),
    [
        pytest.param(PostFilterAsTold(error("broke")), "broke", id="it broke"),
        pytest.param(
            PostFilterAsTold(SUCCESS, "n7"), "nominated to node n7, which does not exist", id="to a node of its dreams"
        ),
    ],
)
def test_error_of_post_filter_is_the_result(tries: PostFilterAsTold, message: str) -> None:
    result = refused(place(Engine([AnswersAsTold(refuses=["n0"]), tries]), cluster(*nodes(1))))
    assert (result.verdict.code, result.message, result.plugins) == (Code.ERROR, message, frozenset({"Tries"}))


def test_first_post_filter_that_succeeds_nominates() -> None:
    tries = (
        PostFilterAsTold(unschedulable("not me")),
        PostFilterAsTold(Verdict(Code.SUCCESS, ("made room",)), "n0"),
        PostFilterAsTold(SUCCESS, "n1"),
    )
    result = refused(place(Engine([AnswersAsTold(refuses=["n0", "n1"]), *tries]), cluster(*nodes(2))))
    assert (result.nominated, result.post_filter_message) == ("n0", "not me, made room")


@pytest.mark.parametrize(("resolvable", "code"), [(RoomFit, Code.UNSCHEDULABLE), (NodeEligible, Code.UNRESOLVABLE)])
def test_refusal_is_resolvable_if_leaving_pods_would_help(
    resolvable: type[NodeEligible] | type[RoomFit], code: Code
) -> None:
    snapshot = cluster(node("n0", {"cpu": "0"}, unschedulable=True))
    assert refused(place(Engine([resolvable()]), snapshot)).verdict.code is code


def test_reserve_stops_at_the_first_failure_and_unreserve_runs_all_in_reverse() -> None:
    journal: list[str] = []
    engine = Engine(
        [
            RecordsCalls(journal, name="a"),
            RecordsCalls(journal, unschedulable("no"), name="b"),
            RecordsCalls(journal, name="c"),
        ]
    )
    story = cycle(cluster(*nodes(1)))
    assert engine.reserve(story, "n0") == unschedulable("no").__class__(Code.UNSCHEDULABLE, ("no",), "b")
    engine.unreserve(story, "n0")
    assert journal == ["reserve a p", "reserve b p", "unreserve c p", "unreserve b p", "unreserve a p"]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([(SUCCESS, 0)], PermitResult({}), id="go"),
        pytest.param(
            [(wait(), 5), (wait(), 5000)], PermitResult({"0": 5, "1": 900.0}), id="wait, a quarter of an hour at most"
        ),
    ],
)
def test_permit_waits_are_bounded_and_collected(answers: list[tuple[Verdict, int]], expected: PermitResult) -> None:
    plugins = [RecordsCalls([], permit=answer, name=str(number)) for number, answer in enumerate(answers)]
    assert Engine(plugins).permit(cycle(cluster(*nodes(1))), "n0") == expected


def test_permit_refusal_stops_the_other_plugins() -> None:
    plugins = [
        RecordsCalls([], permit=(wait(), 5), name="w"),
        RecordsCalls([], permit=(unschedulable("no"), 0), name="r"),
    ]
    verdict = Engine(plugins).permit(cycle(cluster(*nodes(1))), "n0")
    assert isinstance(verdict, Verdict) and verdict.plugin == "r"


@pytest.mark.parametrize(
    "plugins",
    [[RoomFit(), NodeEligible()], [RoomFit(), NodeEligible(), OnePodPerNode()]],
    ids=["rows", "and the cluster"],
)
def test_feasible_rows_are_the_feasible_nodes_of_the_diagnosis(plugins: list[Plugin]) -> None:
    snapshot = cluster(*nodes(4), node("full", {"cpu": "0"}), pods=[pod("a", on="n0", labels={"app": "p"})])
    engine, one = Engine(plugins), pod("p", labels={"app": "p"})
    rows = engine.feasible_rows(cycle(snapshot, one)).tolist()
    assert sorted(present(snapshot.rows.name(row)) for row in rows) == list(
        engine.diagnose(cycle(snapshot, one)).feasible
    )


def test_diagnosis_of_some_rows_counts_only_these() -> None:
    snapshot = cluster(*nodes(3), node("full", {"cpu": "0"}))
    rows = np.array([snapshot.rows.find_row("n1"), snapshot.rows.find_row("full")])
    found = Engine([RoomFit()]).diagnose(cycle(snapshot), rows)
    assert found.feasible == ("n1",)


@pytest.mark.parametrize(
    ("plugin", "where", "reason"),
    [
        pytest.param(RoomFit(), "n0", "", id="nothing"),
        pytest.param(RoomFit(), "full", "Insufficient cpu, Too many pods", id="a filter"),
        pytest.param(RoomFit(), "nowhere", "there is no such node", id="no such node"),
        pytest.param(AnswersAsTold(unresolvable("hopeless")), "n0", "hopeless", id="a PreFilter refuses all nodes"),
    ],
)
def test_why_node_refuses_names_the_reason(plugin: RoomFit | AnswersAsTold, where: str, reason: str) -> None:
    snapshot = cluster(*nodes(1), node("full", {"cpu": "0"}))
    assert Engine([plugin]).why_node_refuses(cycle(snapshot), where) == reason
