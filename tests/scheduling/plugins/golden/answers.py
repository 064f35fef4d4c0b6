"""Our answers to the questions kube-scheduler was asked, and where they differ from its own."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from restow.model.objects import Document, Node, Pod
from restow.model.snapshot import Snapshot
from restow.scheduling.framework import Code, Cycle, FilterPlugin, ScorePlugin
from restow.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from restow.scheduling.plugins.image_locality import ImageLocality
from restow.scheduling.plugins.node_affinity import NodeAffinity
from restow.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from restow.scheduling.plugins.node_name import NodeName
from restow.scheduling.plugins.node_ports import NodePorts
from restow.scheduling.plugins.node_resources_fit import NodeResourcesFit
from restow.scheduling.plugins.node_unschedulable import NodeUnschedulable
from restow.scheduling.plugins.taint_toleration import TaintToleration

Said = tuple[str, tuple[str, ...]]
PLUGINS = {
    plugin.name: plugin
    for plugin in (
        NodeName,
        NodeUnschedulable,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        NodeDeclaredFeatures,
    )
}


def differences(case: Document) -> list[str]:
    """Everything of which kube-scheduler says something else."""
    plugin = PLUGINS[case["plugin"]](case["arguments"])
    cycle = _cycle(case)
    found: list[str] = []
    if isinstance(plugin, FilterPlugin):
        found += _filter_differences(plugin, cycle, case["answer"])
    if isinstance(plugin, ScorePlugin):
        found += _score_differences(plugin, cycle, case["answer"])
    return found


def _cycle(case: Document) -> Cycle:
    snapshot = Snapshot()
    for node in case["nodes"]:
        snapshot.apply_node(msgspec.convert(node, Node))
    for pod in case["pods"]:
        snapshot.apply_pod(msgspec.convert(pod, Pod))
    return Cycle(msgspec.convert(case["pod"], Pod), snapshot, 0.0)


def _filter_differences(plugin: FilterPlugin, cycle: Cycle, answer: Document) -> Iterator[str]:
    before = plugin.pre_filter(cycle)
    theirs_before = answer.get("preFilter", {"code": "Success"})
    if before.is_refusal or theirs_before["code"] not in ("Success", "Skip"):
        if (before.code.value, list(before.reasons)) != (theirs_before["code"], theirs_before.get("reasons", [])):
            yield f"pre_filter: {before}, they say {theirs_before}"
        return
    ours = _filtered(plugin, cycle, skipped=before.code is Code.SKIP)
    for name, said in ours.items():
        told = answer.get("filter", {}).get(name, {"code": "Success"})
        theirs = (told["code"], tuple(sorted(told.get("reasons", ()))))
        if said != theirs:
            yield f"filter of {name}: {said}, they say {theirs}"


def _filtered(plugin: FilterPlugin, cycle: Cycle, *, skipped: bool) -> dict[str, Said]:
    """What we say of each node, asked about all rows and, the same again, about one row at a time."""
    rows = cycle.snapshot.rows
    names = [rows.name(row) or "" for row in range(rows.size)]
    if skipped:
        assert plugin.filter(cycle, rows.every).all(), "a plugin that skips would have accepted every row"
        return dict.fromkeys(names, ("Success", ()))
    accepted, refusals = plugin.filter(cycle, rows.every), plugin.refusals(cycle, rows.every)
    said: dict[str, Said] = {}
    for row, name in enumerate(names):
        assert plugin.filter(cycle, np.array([row])).tolist() == [accepted[row]]
        here = [refusal for refusal in refusals if refusal.rows[row]]
        assert bool(here) is not bool(accepted[row])
        code = Code.UNSCHEDULABLE if all(one.resolvable for one in here) else Code.UNRESOLVABLE
        reasons = tuple(sorted(one.reason for one in here))
        said[name] = (code.value, reasons) if here else ("Success", ())
    return said


def _score_differences(plugin: ScorePlugin, cycle: Cycle, answer: Document) -> Iterator[str]:
    rows, theirs = cycle.snapshot.rows, answer.get("scores")
    before = plugin.pre_score(cycle)
    if before.code is Code.SKIP or theirs is None:
        if before.code is Code.SKIP and theirs is not None and len(set(theirs.values())) > 1:
            yield f"we skip, they score {theirs}"
        if before.code is not Code.SKIP and theirs is None:
            yield f"we score, they say {answer.get('preScore')}"
        return
    raw = plugin.score(cycle, rows.every)
    one_by_one = [int(plugin.score(cycle, np.array([row]))[0]) for row in range(rows.size)]
    assert raw.tolist() == one_by_one
    names = [rows.name(row) or "" for row in range(rows.size)]
    ours = dict(zip(names, plugin.normalize_score(cycle, raw).tolist(), strict=True))
    if ours != theirs:
        yield f"scores {ours}, theirs {theirs}"
