"""A plan as one HTML page: its effect, bars for the nodes before and after, the moves, and the pods that are not moved.

Takes a plan, the nodes and pods it was made for, and when it was made. The page has no scripts and loads nothing, so it
can be mailed, kept with a change request, and opened anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from msgspec.structs import replace

from restow.model.counted_nouns import counted_noun
from restow.model.objects import Node, Pod
from restow.model.pods import namespaced_name
from restow.model.resources import is_extended, pod_requests
from restow.output import plan_figures
from restow.output.node_bars import NodeUse, count_fitting_pods, node_uses, workload_of
from restow.planning.plan import Plan, PlanRefusal, group_by_reason

COLOURS = 8
"""Number of workloads with their own colour; the others share one."""
OTHERS = "others"
MOST_UNCHANGED = 200
MOST_EXAMPLES = 20


def render_page(
    plan: Plan,
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    *,
    resource: str,
    made: str,
    max_moves: int | None = None,
) -> str:
    """The HTML document. The bars show `resource`; `made` is the time at which the plan was made."""
    before = node_uses(nodes, pods, resource)
    after = node_uses(nodes, pods_after(plan, pods), resource)
    leaving, arriving = _leaving_and_arriving(plan, pods, resource)
    bars = _Bars(_colours([*before, *after]), resource, leaving, arriving)
    body = [
        _headline(plan, resource, made, plan_figures.verdict(plan, max_moves)),
        _figures(plan),
        _profile(before, after, resource),
        _scatter(plan, before, after, pods, resource),
        _nodes(before, after, bars),
        _moves(plan, pods, resource),
        _places(plan, pods, resource),
        _refusals(plan.refusals),
    ]
    title = f"Restow: {plan.strategy} plan, {counted_noun(len(plan.moves), 'move')}"
    return _PAGE.format(title=escape(title), style=_STYLE, body="\n".join(part for part in body if part))


def pods_after(plan: Plan, pods: Iterable[Pod]) -> list[Pod]:
    """The pods as they are after the plan is carried out."""
    target = {(move.namespace, move.pod): move.target for move in sorted(plan.moves, key=lambda move: move.order)}
    target |= {(place.namespace, place.pod): place.node for place in plan.places}
    return [
        replace(pod, spec=replace(pod.spec, node_name=target[name]))
        if (name := namespaced_name(pod)) in target
        else pod
        for pod in pods
    ]


def main_resource(plan: Plan, nodes: Iterable[Node], pods: Iterable[Pod], shape: Iterable[str] = ()) -> str:
    """The resource for the bars: an extended resource that placed pods request, else the first one of the shape, else
    cpu."""
    in_shape = [name for name in shape if name != "pods"]
    placed = {(place.namespace, place.pod) for place in plan.places}
    requested = Counter(name for pod in pods if namespaced_name(pod) in placed for name in pod_requests(pod))
    offered = {name for node in nodes for name in node.status.allocatable or ()}
    extended = sorted(name for name in requested if name in offered and is_extended(name))
    return next(iter([*extended, *in_shape, "cpu"]))


# --- parts of the page ------------------------------------------------------------------------------------------------


def _headline(plan: Plan, resource: str, made: str, verdict: str) -> str:
    waves = len({move.wave for move in plan.moves})
    heading = f"{counted_noun(len(plan.moves), 'move')} in {counted_noun(waves, 'wave')}" if plan.moves else "no moves"
    if plan.places:
        heading += f", {counted_noun(len(plan.places), 'pending pod')} placed"
    objective = f", objective {plan.objective}" if plan.objective else ""
    line = f"strategy {plan.strategy}{objective}; made {made} in {plan.seconds:g} s; bars show {resource}"
    paragraph = f"<p class=verdict>{escape(verdict)}</p>" if verdict else ""
    return f"<header><h1>{escape(heading)}</h1><p>{escape(line)}</p>{paragraph}</header>"


def _figures(plan: Plan) -> str:
    rows = plan_figures.figure_rows(plan)
    return _section("Effect", _table(["", "before", "after"], rows, numbers=(1, 2))) if rows else ""


def _profile(before: Sequence[NodeUse], after: Sequence[NodeUse], resource: str) -> str:
    """All nodes in one drawing, fullest first: the steeper the edge, the less idle capacity is scattered."""
    old, new = (sorted((_share(use) for use in uses if use.allocatable), reverse=True) for uses in (before, after))
    if not old or old == new:
        return ""
    drawing = (
        f'<svg class=profile viewBox="0 0 {len(old)} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="How full every node is, before and after">'
        f'<path class=before d="{_steps(old)} L{len(old)},100 L0,100 Z"/><path class=after d="{_steps(new)}"/></svg>'
    )
    key = "<span><i class=before></i>before</span><span><i class=after></i>after</span>"
    nodes = counted_noun(len(old), "node")
    text = f"Share of {escape(resource)} that is requested, {nodes} from the fullest to the emptiest."
    return _section("All nodes", f"<p class=key>{text} {key}</p>{drawing}")


def _share(use: NodeUse) -> float:
    return min(100 * use.used / use.allocatable, 100)


def _steps(shares: Sequence[float]) -> str:
    """A line with one step for each node; y grows downwards."""
    points = [f"{x},{100 - share:.1f}" for at, share in enumerate(shares) for x in (at, at + 1)]
    return "M" + " L".join(points)


def _scatter(
    plan: Plan, before: Sequence[NodeUse], after: Sequence[NodeUse], pods: Iterable[Pod], resource: str
) -> str:
    """How many more pods of each common size fit, before and after."""
    sizes = Counter(pod_requests(pod).get(resource, 0) for pod in pods)
    common = sorted(size for size, _ in sizes.most_common(6) if size > 0)
    largest = max((use.allocatable for use in before), default=0)
    shapes = sorted({*common, *(part for part in (largest // 2, largest) if part > 0)})
    rows = [
        [_amount(resource, size), str(count_fitting_pods(before, size)), str(count_fitting_pods(after, size))]
        for size in shapes
    ]
    if not rows:
        return ""
    head = [f"{resource} requested by a pod", "fit before", "fit after"]
    note = "<p>After the pending pods are placed.</p>" if plan.places else ""
    return _section("How many more pods fit", note + _table(head, rows, numbers=(1, 2)))


# --- bars -------------------------------------------------------------------------------------------------------------


Shares = dict[str, Counter[str]]
"""Requests by node and workload."""


class _Bars(NamedTuple):
    """How the bars are drawn. Pods that leave a node are striped in the bar before, pods that arrive in the bar
    after."""

    colours: dict[str, int]
    resource: str
    leaving: Shares
    arriving: Shares


def _leaving_and_arriving(plan: Plan, pods: Sequence[Pod], resource: str) -> tuple[Shares, Shares]:
    """The requests of the pods that leave each node, and of those that arrive there."""
    sources = {(move.namespace, move.pod): move.source for move in sorted(plan.moves, key=lambda move: -move.order)}
    leaving: Shares = {}
    arriving: Shares = {}
    for pod, later in zip(pods, pods_after(plan, pods), strict=True):
        target = later.spec.node_name
        if later is pod or not target:
            continue
        amount = {workload_of(pod): pod_requests(pod).get(resource, 0)}
        arriving.setdefault(target, Counter()).update(amount)
        if source := sources.get(namespaced_name(pod)):
            leaving.setdefault(source, Counter()).update(amount)
    return leaving, arriving


def _nodes(before: Sequence[NodeUse], after: Sequence[NodeUse], bars: _Bars) -> str:
    pairs = list(zip(before, after, strict=True))
    changed = sorted((pair for pair in pairs if pair[0] != pair[1]), key=_by_change)
    same = [pair for pair in pairs if pair[0] == pair[1]]
    parts = [_legend(bars.colours), _table_of_bars(changed, bars)] if changed else ["<p>No node changes.</p>"]
    if same:
        shown = same[:MOST_UNCHANGED]
        more = f" (showing the first {len(shown)})" if len(shown) < len(same) else ""
        summary = f"{counted_noun(len(same), 'node')} unchanged{more}"
        parts.append(f"<details><summary>{summary}</summary>{_table_of_bars(shown, bars)}</details>")
    return _section("Nodes that change" if changed else "Nodes", "".join(parts))


def _by_change(pair: tuple[NodeUse, NodeUse]) -> tuple[int, int, str]:
    """Nodes that gain idle capacity first, then nodes that lose some, each with the largest change first."""
    gained = pair[1].idle - pair[0].idle
    return (0 if gained > 0 else 1 if gained < 0 else 2), -abs(gained), pair[0].node


def _table_of_bars(pairs: Sequence[tuple[NodeUse, NodeUse]], bars: _Bars) -> str:
    largest = max((old.allocatable for old, _ in pairs), default=0) or 1
    rows = [
        f"<tr><th scope=row>{escape(old.node)}{'' if old.schedulable else ' <em>cordoned</em>'}</th>"
        f"<td class=bar>{_bar(old, bars, bars.leaving, largest)}</td>"
        f"<td class=bar>{_bar(new, bars, bars.arriving, largest)}</td>"
        f"{_number(_amount(bars.resource, old.idle))}{_number(_amount(bars.resource, new.idle))}"
        f"{_number(old.pods)}{_number(new.pods)}</tr>"
        for old, new in pairs
    ]
    head = "".join(
        f"<th scope=col>{name}</th>"
        for name in ("node", "before", "after", "idle before", "after", "pods before", "after")
    )
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"


def _number(content: object) -> str:
    return f"<td class=number>{content}</td>"


def _bar(use: NodeUse, bars: _Bars, travelling: Shares, largest: int) -> str:
    moving = travelling.get(use.node, Counter())
    shares: Counter[tuple[str, bool]] = Counter()
    for workload, requested in use.requested.items():
        name = workload if workload in bars.colours else OTHERS
        part = min(moving[workload], requested)
        shares[name, False] += requested - part
        shares[name, True] += part
    parts = [
        f'<i class="c{bars.colours.get(name, COLOURS)}{" moves" if moves else ""}" style="flex-grow:{amount}" '
        f'title="{escape(name)} {_amount(bars.resource, amount)}"></i>'
        for (name, moves), amount in sorted(
            shares.items(), key=lambda share: (share[0][1], bars.colours.get(share[0][0], COLOURS))
        )
        if amount
    ]
    idle = max(use.allocatable - use.used, 0)
    width = 100 * max(use.allocatable, use.used) / largest
    return f'<div style="width:{min(width, 100):.1f}%">{"".join(parts)}<i style="flex-grow:{idle}"></i></div>'


def _legend(colours: dict[str, int]) -> str:
    entries = [f'<span><i class="c{number}"></i>{escape(name)}</span>' for name, number in colours.items()]
    rest = f'<span><i class="c{COLOURS}"></i>others</span><span><i></i>idle</span>'
    return f'<p class=legend>{"".join(entries)}{rest}<span><i class="c{COLOURS} moves"></i>leaves or arrives</span></p>'


# --- lists ------------------------------------------------------------------------------------------------------------


def _moves(plan: Plan, pods: Iterable[Pod], resource: str) -> str:
    if not plan.moves:
        return ""
    known = {namespaced_name(pod): pod for pod in pods}
    rows = []
    for move in sorted(plan.moves, key=lambda move: (move.wave, move.order)):
        pod = known.get((move.namespace, move.pod))
        request = _amount(resource, pod_requests(pod).get(resource, 0)) if pod else ""
        name = f"{move.namespace}/{move.pod}"
        rows.append([str(move.wave), str(move.order), name, request, move.source, move.target])
    table = _table(["wave", "order", "pod", resource, "from", "to"], rows, numbers=(0, 1, 3))
    text = "A wave starts after the previous one has ended. Every pod has its new seat before it leaves the old one."
    return _section("Moves", f"<p>{text}</p>{table}")


def _places(plan: Plan, pods: Iterable[Pod], resource: str) -> str:
    known = {namespaced_name(pod): pod_requests(pod).get(resource, 0) for pod in pods}
    rows = [
        [
            f"{place.namespace}/{place.pod}",
            _amount(resource, known.get((place.namespace, place.pod), 0)),
            place.node,
        ]
        for place in plan.places
    ]
    table = _table(["pod", resource, "node"], rows, numbers=(1,))
    return _section("Pending pods that fit after the moves", table) if rows else ""


def _refusals(refusals: Iterable[PlanRefusal]) -> str:
    rows = []
    for reason, names in group_by_reason(refusals):
        more = f", and {len(names) - MOST_EXAMPLES} more" if len(names) > MOST_EXAMPLES else ""
        rows.append([str(len(names) or ""), reason, ", ".join(names[:MOST_EXAMPLES]) + more])
    return (
        _section("Pods that are not moved or placed", _table(["pods", "reason", "examples"], rows, numbers=(0,)))
        if rows
        else ""
    )


# --- words and tables -------------------------------------------------------------------------------------------------


def _colours(uses: Iterable[NodeUse]) -> dict[str, int]:
    """The workloads with the largest requests, each with the number of its colour."""
    total: Counter[str] = Counter()
    for use in uses:
        total.update(use.requested)
    largest = sorted(total, key=lambda name: (-total[name], name))[:COLOURS]
    return {name: number for number, name in enumerate(largest)}


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    kinds = [" class=number" if column in numbers else "" for column in range(len(head))]
    top = "".join(f"<th scope=col{kind}>{escape(cell)}</th>" for kind, cell in zip(kinds, head, strict=True))
    lines = ["".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows]
    content = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div class=wide><table><thead><tr>{top}</tr></thead><tbody>{content}</tbody></table></div>"


def _amount(resource: str, base_units: int) -> str:
    """An amount in cores, GiB or, for other resources, as a number."""
    if resource == "cpu":
        return f"{base_units / 1000:g}"
    if resource in ("memory", "ephemeral-storage"):
        return f"{base_units / 2**30:.3g}Gi"
    return str(base_units)


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body>
{body}
</body></html>
"""

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --empty: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1100px; padding: 0 1rem; }
header p, section > p { opacity: .75; }
header .verdict { opacity: 1; font-weight: 600; }
.profile { display: block; width: 100%; height: 140px; background: var(--empty); border-radius: 3px; }
.profile path { vector-effect: non-scaling-stroke; }
.profile .before { fill: #9998; } .profile .after { fill: none; stroke: #4477aa; stroke-width: 2; }
.key i.before { background: #9998; } .key i.after { background: #4477aa; height: .2rem; vertical-align: 3px; }
h1 { margin: 0; font-size: 1.6rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { font-weight: 600; white-space: nowrap; } tbody th { font-weight: 400; white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
.bar { width: 32%; min-width: 180px; vertical-align: middle; }
.bar div { display: flex; height: .9rem; background: var(--empty); border-radius: 3px; overflow: hidden; }
.bar i { flex-basis: 0; min-width: 0; }
.legend span, .key span { margin-right: 1rem; white-space: nowrap; }
.legend i, .key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .35rem;
  vertical-align: -1px; background: var(--empty); }
.bar .c0, .legend .c0 { background: #4477aa; } .bar .c1, .legend .c1 { background: #ee6677; }
.bar .c2, .legend .c2 { background: #228833; } .bar .c3, .legend .c3 { background: #ccbb44; }
.bar .c4, .legend .c4 { background: #66ccee; } .bar .c5, .legend .c5 { background: #aa3377; }
.bar .c6, .legend .c6 { background: #ee8866; } .bar .c7, .legend .c7 { background: #44bb99; }
.bar .c8, .legend .c8 { background: #999999; }
.bar i.moves, .legend i.moves { background-image: repeating-linear-gradient(135deg, #fff9 0 3px, #fff0 3px 6px); }
details { margin-top: 1rem; } summary { cursor: pointer; }
"""
