"""A plan as one page to look at: before and after per node, the figures, the moves, what stays and why.

Goes in: a plan, the nodes and pods it was made for, and when. Comes out: one HTML document that needs nothing else, no
script and no network, so it can be mailed, kept with a change request, and opened anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from msgspec.structs import replace

from restow.model.objects import Node, Pod
from restow.model.pods import full_name
from restow.model.resources import is_extended, pod_requests
from restow.model.words import number_of
from restow.planning.plan import Plan, Refusal, by_reason
from restow.showing import figures
from restow.showing.picture import NodeUse, node_uses, slots, workload_of

COLOURS = 8
"""Workloads with a colour of their own; the others share one."""
OTHERS = "others"
MOST_UNCHANGED = 200
MOST_EXAMPLES = 20


def page(plan: Plan, nodes: Sequence[Node], pods: Sequence[Pod], *, resource: str, made: str) -> str:
    """The document; the bars show `resource`, `made` says when the plan was made."""
    before = node_uses(nodes, pods, resource)
    after = node_uses(nodes, moved(plan, pods), resource)
    going, coming = _travellers(plan, pods, resource)
    bars = _Bars(_colours([*before, *after]), resource, going, coming)
    body = [
        _headline(plan, resource, made),
        _figures(plan),
        _profile(before, after, resource),
        _scatter(plan, before, after, pods, resource),
        _nodes(before, after, bars),
        _moves(plan, pods, resource),
        _places(plan, pods, resource),
        _refusals(plan.refusals),
    ]
    title = f"Restow: {plan.strategy} plan, {number_of(len(plan.moves), 'move')}"
    return _PAGE.format(title=escape(title), style=_STYLE, body="\n".join(part for part in body if part))


def moved(plan: Plan, pods: Iterable[Pod]) -> list[Pod]:
    """The pods as they will be once the plan is carried out."""
    target = {(move.namespace, move.pod): move.target for move in sorted(plan.moves, key=lambda move: move.order)}
    target |= {(place.namespace, place.pod): place.node for place in plan.places}
    return [
        replace(pod, spec=replace(pod.spec, node_name=target[name])) if (name := full_name(pod)) in target else pod
        for pod in pods
    ]


def main_resource(plan: Plan, nodes: Iterable[Node], pods: Iterable[Pod], shape: Iterable[str] = ()) -> str:
    """What to draw: what the shape asks for, or the extended resource that placed pods ask for, else cpu."""
    asked = [name for name in shape if name != "pods"]
    placed = {(place.namespace, place.pod) for place in plan.places}
    wanted = Counter(name for pod in pods if full_name(pod) in placed for name in pod_requests(pod))
    offered = {name for node in nodes for name in node.status.allocatable or ()}
    extended = sorted(name for name in wanted if name in offered and is_extended(name))
    return next(iter([*extended, *asked, "cpu"]))


# --- parts of the page ------------------------------------------------------------------------------------------------


def _headline(plan: Plan, resource: str, made: str) -> str:
    waves = len({move.wave for move in plan.moves})
    said = f"{number_of(len(plan.moves), 'move')} in {number_of(waves, 'wave')}" if plan.moves else "nothing to move"
    if plan.places:
        said += f", {number_of(len(plan.places), 'pending pod')} placed"
    objective = f", objective {plan.objective}" if plan.objective else ""
    line = f"strategy {plan.strategy}{objective}; made {made} in {plan.seconds:g} s; bars show {resource}"
    told = figures.verdict(plan)
    verdict = f"<p class=verdict>{escape(told)}</p>" if told else ""
    return f"<header><h1>{escape(said)}</h1><p>{escape(line)}</p>{verdict}</header>"


def _figures(plan: Plan) -> str:
    rows = figures.rows(plan)
    return _section("What it brings", _table(["", "before", "after"], rows, numbers=(1, 2))) if rows else ""


def _profile(before: Sequence[NodeUse], after: Sequence[NodeUse], resource: str) -> str:
    """All nodes at one glance, fullest first: the steeper the edge, the less is scattered."""
    old, new = (sorted((_share(use) for use in uses if use.allocatable), reverse=True) for uses in (before, after))
    if not old or old == new:
        return ""
    drawing = (
        f'<svg class=profile viewBox="0 0 {len(old)} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="How full every node is, before and after">'
        f'<path class=before d="{_steps(old)} L{len(old)},100 L0,100 Z"/><path class=after d="{_steps(new)}"/></svg>'
    )
    key = "<span><i class=before></i>before</span><span><i class=after></i>after</span>"
    nodes = number_of(len(old), "node")
    said = f"{nodes} from the fullest to the emptiest, how much of their {escape(resource)} is taken."
    return _section("All nodes", f"<p class=key>{said} {key}</p>{drawing}")


def _share(use: NodeUse) -> float:
    return min(100 * use.used / use.allocatable, 100)


def _steps(shares: Sequence[float]) -> str:
    """A line with one step for each node; y grows downwards."""
    points = [f"{x},{100 - share:.1f}" for at, share in enumerate(shares) for x in (at, at + 1)]
    return "M" + " L".join(points)


def _scatter(
    plan: Plan, before: Sequence[NodeUse], after: Sequence[NodeUse], pods: Iterable[Pod], resource: str
) -> str:
    """How many pods of each common size fit, as the pods lie before and after."""
    sizes = Counter(pod_requests(pod).get(resource, 0) for pod in pods)
    common = sorted(size for size, _ in sizes.most_common(6) if size > 0)
    largest = max((use.allocatable for use in before), default=0)
    shapes = sorted({*common, *(part for part in (largest // 2, largest) if part > 0)})
    rows = [[_amount(resource, size), str(slots(before, size)), str(slots(after, size))] for size in shapes]
    if not rows:
        return ""
    head = [f"{resource} of one pod", "fit before", "fit after"]
    note = "<p>After the pending pods have taken their places.</p>" if plan.places else ""
    return _section("Room that is left, as pods find it", note + _table(head, rows, numbers=(1, 2)))


# --- bars -------------------------------------------------------------------------------------------------------------


Shares = dict[str, Counter[str]]
"""By node, how much the pods of each workload ask for."""


class _Bars(NamedTuple):
    """How the bars of a page are drawn: what leaves a node is striped before, what comes to it afterwards."""

    colours: dict[str, int]
    resource: str
    going: Shares
    coming: Shares


def _travellers(plan: Plan, pods: Sequence[Pod], resource: str) -> tuple[Shares, Shares]:
    """What leaves each node in the end, and what comes to it."""
    sources = {(move.namespace, move.pod): move.source for move in sorted(plan.moves, key=lambda one: -one.order)}
    going: Shares = {}
    coming: Shares = {}
    for pod, later in zip(pods, moved(plan, pods), strict=True):
        target = later.spec.node_name
        if later is pod or not target:
            continue
        amount = {workload_of(pod): pod_requests(pod).get(resource, 0)}
        coming.setdefault(target, Counter()).update(amount)
        if source := sources.get(full_name(pod)):
            going.setdefault(source, Counter()).update(amount)
    return going, coming


def _nodes(before: Sequence[NodeUse], after: Sequence[NodeUse], bars: _Bars) -> str:
    pairs = list(zip(before, after, strict=True))
    changed = sorted((pair for pair in pairs if pair[0] != pair[1]), key=_by_change)
    same = [pair for pair in pairs if pair[0] == pair[1]]
    parts = [_legend(bars.colours), _table_of_bars(changed, bars)] if changed else ["<p>No node changes.</p>"]
    if same:
        shown = same[:MOST_UNCHANGED]
        more = f" (the first {len(shown)} of them)" if len(shown) < len(same) else ""
        summary = f"{number_of(len(same), 'node')} as before{more}"
        parts.append(f"<details><summary>{summary}</summary>{_table_of_bars(shown, bars)}</details>")
    return _section("Nodes that change" if changed else "Nodes", "".join(parts))


def _by_change(pair: tuple[NodeUse, NodeUse]) -> tuple[int, int, str]:
    """Where most becomes free comes first, where most is filled next; where only other resources change, last."""
    gained = pair[1].idle - pair[0].idle
    return (0 if gained > 0 else 1 if gained < 0 else 2), -abs(gained), pair[0].node


def _table_of_bars(pairs: Sequence[tuple[NodeUse, NodeUse]], bars: _Bars) -> str:
    largest = max((old.allocatable for old, _ in pairs), default=0) or 1
    rows = [
        f"<tr><th scope=row>{escape(old.node)}{'' if old.schedulable else ' <em>cordoned</em>'}</th>"
        f"<td class=bar>{_bar(old, bars, bars.going, largest)}</td>"
        f"<td class=bar>{_bar(new, bars, bars.coming, largest)}</td>"
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
    for who, requested in use.requested.items():
        shown = who if who in bars.colours else OTHERS
        part = min(moving[who], requested)
        shares[shown, False] += requested - part
        shares[shown, True] += part
    parts = [
        f'<i class="c{bars.colours.get(who, COLOURS)}{" moves" if moves else ""}" style="flex-grow:{amount}" '
        f'title="{escape(who)} {_amount(bars.resource, amount)}"></i>'
        for (who, moves), amount in sorted(
            shares.items(), key=lambda one: (one[0][1], bars.colours.get(one[0][0], COLOURS))
        )
        if amount
    ]
    idle = max(use.allocatable - use.used, 0)
    width = 100 * max(use.allocatable, use.used) / largest
    return f'<div style="width:{min(width, 100):.1f}%">{"".join(parts)}<i style="flex-grow:{idle}"></i></div>'


def _legend(colours: dict[str, int]) -> str:
    entries = [f'<span><i class="c{number}"></i>{escape(who)}</span>' for who, number in colours.items()]
    rest = f'<span><i class="c{COLOURS}"></i>others</span><span><i></i>idle</span>'
    return f'<p class=legend>{"".join(entries)}{rest}<span><i class="c{COLOURS} moves"></i>leaves, or comes</span></p>'


# --- lists ------------------------------------------------------------------------------------------------------------


def _moves(plan: Plan, pods: Iterable[Pod], resource: str) -> str:
    if not plan.moves:
        return ""
    known = {full_name(pod): pod for pod in pods}
    rows = []
    for move in sorted(plan.moves, key=lambda move: (move.wave, move.order)):
        pod = known.get((move.namespace, move.pod))
        request = _amount(resource, pod_requests(pod).get(resource, 0)) if pod else ""
        name = f"{move.namespace}/{move.pod}"
        rows.append([str(move.wave), str(move.order), name, request, move.source, move.target])
    table = _table(["wave", "order", "pod", resource, "from", "to"], rows, numbers=(0, 1, 3))
    said = "A wave begins when the one before has ended. Every pod has its new seat before it leaves the old one."
    return _section("Moves", f"<p>{said}</p>{table}")


def _places(plan: Plan, pods: Iterable[Pod], resource: str) -> str:
    known = {full_name(pod): pod_requests(pod).get(resource, 0) for pod in pods}
    rows = [
        [f"{one.namespace}/{one.pod}", _amount(resource, known.get((one.namespace, one.pod), 0)), one.node]
        for one in plan.places
    ]
    table = _table(["pod", resource, "node"], rows, numbers=(1,))
    return _section("Pending pods that then fit", table) if rows else ""


def _refusals(refusals: Iterable[Refusal]) -> str:
    rows = []
    for reason, names in by_reason(refusals):
        more = f", and {len(names) - MOST_EXAMPLES} more" if len(names) > MOST_EXAMPLES else ""
        rows.append([str(len(names) or ""), reason, ", ".join(names[:MOST_EXAMPLES]) + more])
    return _section("What stays, and why", _table(["pods", "why", "which"], rows, numbers=(0,))) if rows else ""


# --- words and tables -------------------------------------------------------------------------------------------------


def _colours(uses: Iterable[NodeUse]) -> dict[str, int]:
    """The workloads that take most, each with the number of its colour."""
    total: Counter[str] = Counter()
    for use in uses:
        total.update(use.requested)
    largest = sorted(total, key=lambda who: (-total[who], who))[:COLOURS]
    return {who: number for number, who in enumerate(largest)}


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    kinds = [" class=number" if column in numbers else "" for column in range(len(head))]
    top = "".join(f"<th scope=col{kind}>{escape(cell)}</th>" for kind, cell in zip(kinds, head, strict=True))
    lines = ["".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows]
    content = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div class=wide><table><thead><tr>{top}</tr></thead><tbody>{content}</tbody></table></div>"


def _amount(resource: str, base_units: int) -> str:
    """Cores for cpu, GiB for bytes, else the number."""
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
