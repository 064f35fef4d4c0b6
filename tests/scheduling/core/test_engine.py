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
from restow.scheduling.schedule_result import PermitResult, Placed, Unplaced
from tests.model.cluster.builders import node, pod
from tests.narrowing import present
from tests.scheduling.core.doubles import (
    Apart,
    Eligible,
    Fit,
    Keeps,
    Numbered,
    Says,
    Tries,
    cluster,
    cycle,
    node_of,
    nodes,
    refused,
)


def place(engine: Engine, snapshot: Snapshot, one: Pod | None = None, **options: Any) -> Placed | Unplaced:
    return engine.place(cycle(snapshot, one), **options)


def test_the_emptiest_node_wins_and_ties_go_by_name() -> None:
    snapshot = cluster(*nodes(3), pods=[pod("a", on="n0")])
    assert place(Engine([Fit()]), snapshot) == Placed("n1", 1, 100)


def test_names_break_ties_whatever_the_order_nodes_came_in() -> None:
    assert node_of(place(Engine([Fit()]), cluster(node("b"), node("c"), node("a")))) == "a"


def test_a_skipped_filter_is_not_asked() -> None:
    says = Says(SKIP, refuses=["n0"])
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
def test_verdicts_of_prefilter(verdict: Verdict, later_asked: list[str], code: Code) -> None:
    later = Says()
    result = refused(place(Engine([Says(verdict, name="First"), later]), cluster(*nodes(2))))
    assert isinstance(result, Unplaced)
    assert (result.verdict.code, result.plugins, later.asked) == (code, frozenset({"First"}), later_asked)


def test_the_first_unschedulable_prefilter_is_the_one_told() -> None:
    result = refused(place(Engine([Says(unschedulable("a")), Says(unschedulable("b"))]), cluster(*nodes(2))))
    assert result.message == "0/2 nodes are available: a."


def test_the_first_failing_plugin_wins_for_a_node() -> None:
    first, second = Says(refuses=["n0"], name="First"), Says(refuses=["n0", "n1"], name="Second")
    result = refused(place(Engine([first, second]), cluster(*nodes(2))))
    assert result.message == "0/2 nodes are available: 1 First said no, 1 Second said no."
    assert result.plugins == {"First", "Second"}


class ExcludesByName(Says, NodeNameFilter):
    """Excludes before any filter runs the nodes that its filter refuses."""

    def excluded_by_name(self, cycle: Cycle, rows: Which) -> Mask:
        return ~self.filter(cycle, rows)


def test_a_node_excluded_by_name_is_counted_before_the_filters_run() -> None:
    first, second = Says(refuses=["n0", "n1"], name="First"), ExcludesByName(refuses=["n1"], name="Second")
    result = refused(place(Engine([first, second]), cluster(*nodes(2))))
    assert result.message == "0/2 nodes are available: 1 First said no, 1 Second said no."


def test_several_reasons_of_one_plugin_count_each() -> None:
    result = refused(
        place(Engine([Fit()]), cluster(*nodes(2, offers={"cpu": "1", "memory": "1Gi"})), pod("p", {"cpu": "2"}))
    )
    assert result.message == "0/2 nodes are available: 2 Insufficient cpu, 2 Too many pods."


def test_without_nodes() -> None:
    told = "0/0 nodes are available: no nodes available to schedule pods."
    assert refused(place(Engine([Fit()]), cluster())).message == told


@pytest.mark.parametrize(
    ("nominated", "expected"), [("n2", "n2"), ("n1", "n0"), ("gone", "n0")], ids=["fits", "is full", "is gone"]
)
def test_the_nominated_node_is_tried_first(nominated: str, expected: str) -> None:
    snapshot = cluster(*nodes(3), pods=[pod("full", {"cpu": "4"}, on="n1")])
    asking = replace(pod("p"), status=PodStatus(nominated_node_name=nominated))
    assert node_of(place(Engine([Fit()]), snapshot, asking)) == expected


def test_a_nominated_node_must_pass_every_filter() -> None:
    engine = Engine([Fit(), Eligible(), Apart()])
    snapshot = cluster(*nodes(2), pods=[pod("a", on="n1", labels={"app": "x"})])
    asking = replace(pod("p", labels={"app": "x"}), status=PodStatus(nominated_node_name="n1"))
    assert node_of(place(engine, snapshot, asking)) == "n0"
    assert engine.fits(cycle(snapshot, pod("q")), "n1")
    assert not engine.fits(cycle(snapshot, pod("r", labels={"app": "x"})), "n1")


def test_normalised_scores_compare_feasible_nodes_only() -> None:
    snapshot = cluster(
        node("a", labels={"n": "1"}), node("b", labels={"n": "4"}), node("c", labels={"n": "9"}, unschedulable=True)
    )
    assert place(Engine([Fit(), Eligible(), Numbered()], {"Numbered": 2}), snapshot) == Placed("b", 1, 300)


def test_weights_decide() -> None:
    snapshot = cluster(
        node("a", labels={"n": "4"}), node("b", labels={"n": "2"}), pods=[pod("x", {"cpu": "3"}, on="a")]
    )
    assert node_of(place(Engine([Fit(), Numbered()], {"Numbered": 1}), snapshot)) == "b"
    assert node_of(place(Engine([Fit(), Numbered()], {"Numbered": 3}), snapshot)) == "a"


def test_a_score_out_of_range_is_a_broken_promise() -> None:
    class Wild(Numbered):
        def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
            return raw * 101

    with pytest.raises(ScoreOutOfRange, match="Numbered"):
        place(Engine([Wild()]), cluster(node("a", labels={"n": "1"}), node("b", labels={"n": "2"})))


def test_changes_of_nodes_are_seen() -> None:
    engine, snapshot = Engine([Eligible(), Fit()]), cluster(*nodes(2))
    assert node_of(place(engine, snapshot)) == "n0"
    snapshot.apply_node(node("n0", taints=[Taint(key="k", effect="NoSchedule")]))
    assert node_of(place(engine, snapshot)) == "n1"
    snapshot.remove_node(node("n1"))
    assert refused(place(engine, snapshot)).message == "0/1 nodes are available: 1 node(s) were not eligible."
    snapshot.apply_node(node("a"))
    assert node_of(place(engine, snapshot)) == "a"


def test_another_snapshot_shares_nothing_with_the_last() -> None:
    engine = Engine([Fit()])
    assert node_of(place(engine, cluster(*nodes(2), pods=[pod("x", on="n0")]))) == "n1"
    assert node_of(place(engine, cluster(*nodes(2), pods=[pod("x", on="n1")]))) == "n0"


def test_many_blocks_are_searched_for_a_node_that_the_cluster_accepts() -> None:
    taken = [pod(f"x{number}", {"cpu": "1m"}, on=f"n{number}", labels={"app": "x"}) for number in range(699)]
    result = place(Engine([Fit(), Apart()]), cluster(*nodes(700), pods=taken), pod("p", labels={"app": "x"}))
    assert node_of(result) == "n699"


def test_postfilter_hears_every_refusal_and_has_the_last_word() -> None:
    tries = Tries(unschedulable("preemption would not help"))
    result = refused(place(Engine([Says(refuses=["n0"]), tries]), cluster(*nodes(1))))
    assert list(tries.seen) == ["Says"]
    assert result.message == "0/1 nodes are available: 1 Says said no. preemption would not help"


@pytest.mark.parametrize(
    ("tries", "message"),
    [
        pytest.param(Tries(error("broke")), "broke", id="it broke"),
        pytest.param(Tries(SUCCESS, "n7"), "nominated to node n7, which does not exist", id="to a node of its dreams"),
    ],
)
def test_an_error_of_postfilter_is_the_result(tries: Tries, message: str) -> None:
    result = refused(place(Engine([Says(refuses=["n0"]), tries]), cluster(*nodes(1))))
    assert (result.verdict.code, result.message, result.plugins) == (Code.ERROR, message, frozenset({"Tries"}))


def test_the_first_postfilter_that_succeeds_nominates() -> None:
    tries = Tries(unschedulable("not me")), Tries(Verdict(Code.SUCCESS, ("made room",)), "n0"), Tries(SUCCESS, "n1")
    result = refused(place(Engine([Says(refuses=["n0", "n1"]), *tries]), cluster(*nodes(2))))
    assert (result.nominated, result.post_filter_message) == ("n0", "not me, made room")


@pytest.mark.parametrize(("resolvable", "code"), [(Fit, Code.UNSCHEDULABLE), (Eligible, Code.UNRESOLVABLE)])
def test_whether_others_leaving_would_help(resolvable: type[Eligible] | type[Fit], code: Code) -> None:
    snapshot = cluster(node("n0", {"cpu": "0"}, unschedulable=True))
    assert refused(place(Engine([resolvable()]), snapshot)).verdict.code is code


def test_reserve_stops_at_the_first_that_fails_and_unreserve_reaches_all_in_reverse() -> None:
    journal: list[str] = []
    engine = Engine([Keeps(journal, name="a"), Keeps(journal, unschedulable("no"), name="b"), Keeps(journal, name="c")])
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
def test_permit(answers: list[tuple[Verdict, int]], expected: PermitResult) -> None:
    plugins = [Keeps([], permit=answer, name=str(number)) for number, answer in enumerate(answers)]
    assert Engine(plugins).permit(cycle(cluster(*nodes(1))), "n0") == expected


def test_a_refusal_of_permit_stops_it() -> None:
    plugins = [Keeps([], permit=(wait(), 5), name="w"), Keeps([], permit=(unschedulable("no"), 0), name="r")]
    verdict = Engine(plugins).permit(cycle(cluster(*nodes(1))), "n0")
    assert isinstance(verdict, Verdict) and verdict.plugin == "r"


@pytest.mark.parametrize(
    "plugins", [[Fit(), Eligible()], [Fit(), Eligible(), Apart()]], ids=["rows", "and the cluster"]
)
def test_acceptable_rows_are_those_that_a_survey_finds(plugins: list[Plugin]) -> None:
    snapshot = cluster(*nodes(4), node("full", {"cpu": "0"}), pods=[pod("a", on="n0", labels={"app": "p"})])
    engine, one = Engine(plugins), pod("p", labels={"app": "p"})
    rows = engine.feasible_rows(cycle(snapshot, one)).tolist()
    assert sorted(present(snapshot.rows.name(row)) for row in rows) == list(
        engine.diagnose(cycle(snapshot, one)).feasible
    )


def test_a_survey_may_be_of_some_rows() -> None:
    snapshot = cluster(*nodes(3), node("full", {"cpu": "0"}))
    rows = np.array([snapshot.rows.find("n1"), snapshot.rows.find("full")])
    found = Engine([Fit()]).diagnose(cycle(snapshot), rows)
    assert found.feasible == ("n1",)


@pytest.mark.parametrize(
    ("plugin", "where", "reason"),
    [
        pytest.param(Fit(), "n0", "", id="nothing"),
        pytest.param(Fit(), "full", "Insufficient cpu, Too many pods", id="a filter"),
        pytest.param(Fit(), "nowhere", "there is no such node", id="no such node"),
        pytest.param(Says(unresolvable("hopeless")), "n0", "hopeless", id="said before any node was asked"),
    ],
)
def test_what_keeps_a_pod_from_one_node(plugin: Fit | Says, where: str, reason: str) -> None:
    snapshot = cluster(*nodes(1), node("full", {"cpu": "0"}))
    assert Engine([plugin]).why_node_refuses(cycle(snapshot), where) == reason
