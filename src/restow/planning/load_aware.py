"""LoadAware: pods of nodes that are really busy move to nodes that are really idle.

    use       what is measured, per what the node offers; older than maxAge is as good as not measured
    sources   Ready, above one targetThreshold, busiest first, until they are not
    pods      of a source, those that may move and are measured; most of the overused resource first, and nobody who
              uses none of what is still overused
    targets   Ready, not cordoned, below every threshold; the idlest that takes the pod by the scheduler's own filters,
              and that no targetThreshold is passed with what the pod uses

Nodes that rest after a migration, whoever caused it, are neither: what is measured there is of before. A pod is not
sent back within the cool-down. Nodes that Defragmentation empties are the last resort: a pod that it could bring from
there to a fuller node goes to that one at once.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, RowIndex, Snapshot
from restow.model.pods import full_name
from restow.model.resources import CPU, PODS
from restow.model.words import number_of
from restow.planning.arguments import LoadAware, read_load_aware
from restow.planning.bookings import Bookings
from restow.planning.cooldown import moved_from, resting, resting_sentence
from restow.planning.effect import after, versions
from restow.planning.heat import Heat
from restow.planning.measured import Measured, Sample
from restow.planning.measures import is_ready, name_order, overview
from restow.planning.movable import about_all, foreign_refusal, guests_of, refused
from restow.planning.neighbours import Neighbours
from restow.planning.plan import Measures, Plan, Refusal
from restow.planning.request import Request
from restow.planning.sequence import Wanted, sequence


def load_aware(snapshot: Snapshot, request: Request) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_load_aware(request.arguments)
    with Bookings(snapshot, request.engine, request.now) as bookings:
        run = _Run(bookings, request, settings)
        refusals = run.run()
    ordered = sequence(snapshot, request, run.wanted, most=request.max_moves)

    return Plan(
        strategy="load-aware",
        moves=ordered.moves,
        before={**overview(snapshot), **run.before},
        after={**after(snapshot, request, ordered.moves, overview), **run.figures()},
        refusals=(*refusals, *ordered.dropped, *foreign_refusal(snapshot, request.mobility)),
        versions=versions(snapshot, ordered.moves),
    )


class _Run:
    def __init__(self, bookings: Bookings, request: Request, settings: LoadAware) -> None:
        self.wanted: list[Wanted] = []
        self._bookings = bookings
        self._snapshot = snapshot = bookings.snapshot
        self._request = request
        self._settings = settings
        self._heat = heat = Heat(snapshot, request, settings.busy, settings.metering.max_age)
        self._neighbours = Neighbours(snapshot, request)
        self._emptied = self._neighbours.emptied()
        self._by_name = name_order(snapshot)
        self._cool_down = request.cool_down(settings.cool_down)
        rest = resting(snapshot, request.migrated, request.now, self._cool_down)
        self._part: Mask = is_ready(snapshot) & heat.known
        """Rows that take part: what they use is known, and they do not rest."""
        self._known = int(self._part.sum())
        self._part[[row for name in rest if (row := snapshot.rows.find(name)) is not None]] = False
        self.before = self.figures()

    def figures(self) -> Measures:
        rows = np.flatnonzero(self._part)
        return {"measuredNodes": len(rows), "busyNodes": sum(self._is_busy(row) for row in rows.tolist())}

    # --- planning -----------------------------------------------------------------------------------------------------

    def run(self) -> list[Refusal]:
        """Book moves until nothing is left to do; what stays, and why."""
        use, settings = self._request.measured, self._settings
        if use is None or not use.nodes:
            return [about_all(f"there is no measured use: {use.trouble if use else 'nobody measures'}")]
        told = self._left_alone(use)
        rows = np.flatnonzero(self._part)
        busy = [row for row in rows.tolist() if self._is_busy(row)]
        idle = len(self._idle(rows))
        if not busy:
            return [*told, about_all(f"none of {len(rows)} measured nodes is above targetThresholds")]
        if idle <= settings.number_of_nodes:
            return [*told, about_all(f"{idle} of {len(rows)} measured nodes are below thresholds")]
        for row in sorted(busy, key=lambda one: (-self._heat.above(settings.busy, one), self._by_name[one])):
            told += self._relieve(row)
        return told

    def _left_alone(self, use: Measured) -> list[Refusal]:
        """How many nodes are left alone because nobody knows what they use, or because they rest."""
        max_age = self._settings.metering.max_age
        stale, _ = use.stale(self._request.now - max_age)
        ready = [self._name(row) for row in np.flatnonzero(is_ready(self._snapshot)).tolist()]
        wanted = self._settings.busy.keys() - {PODS}
        missing = sum(name not in use.nodes or not wanted <= use.nodes[name].amounts.keys() for name in ready)
        found = [f"{number_of(stale, 'node', 'were')} measured more than {max_age:g}s ago"] if stale else []
        found += [f"{missing} of {len(ready)} Ready nodes are not measured"] if missing else []
        if rests := self._known - int(self._part.sum()):
            found.append(f"{rests} of {self._known} measured nodes {resting_sentence(self._cool_down)}")
        return list(map(about_all, found))

    def _is_busy(self, row: int) -> bool:
        return self._heat.above(self._settings.busy, row) > 0

    def _idle(self, rows: RowIndex) -> RowIndex:
        """Those of these rows that may take somebody."""
        rows = rows[self._part[rows] & ~self._snapshot.nodes.unschedulable[rows]]
        return rows[self._heat.below(self._settings.idle, rows)]

    def _relieve(self, row: int) -> list[Refusal]:
        """Move pods of a busy node until it is not; those that stay, and why."""
        guests = guests_of(self._snapshot, self._name(row), self._request.mobility)
        refusals = list(guests.refusals)
        candidates: list[tuple[Occupant, Sample]] = []
        for one in guests.movable:
            sample = self._heat.sample(one)
            why = self._settings.pods.why_not(one.pod) or ("" if sample else "what it uses is not measured")
            if why or sample is None:
                refusals.append(refused(one.pod, why))
            else:
                candidates.append((one, sample))
        for one, _ in sorted(candidates, key=lambda pair: self._heaviest_first(row, *pair)):
            if not self._is_busy(row) or len(self.wanted) >= self._request.max_moves:
                break
            why = self._of_no_help(one, row) or self._move(one, row)
            if why:
                refusals.append(refused(one.pod, why))
        return refusals

    def _heaviest_first(self, row: int, one: Occupant, sample: Sample) -> tuple[object, ...]:
        over = self._overused(row)
        main = CPU if CPU in over else next(iter(over), CPU)
        return -sample.amounts.get(main, 0), *full_name(one.pod)

    def _of_no_help(self, pod: Occupant, source: int) -> str:
        """Why a node would be as busy without the pod, if it would."""
        over = self._overused(source)
        if self._heat.uses_any(pod, over):
            return ""
        return f"it uses no {' or '.join(over)}, of which too much is used there"

    def _overused(self, row: int) -> list[str]:
        limits = self._settings.busy
        return [name for name in limits if self._heat.percents[name].item(row) > limits[name]]

    def _move(self, pod: Occupant, source: int) -> str:
        """Hold a node for the pod; why not, if there is none."""
        rows = self._bookings.choices(pod.key)
        back = moved_from(pod.pod, self._request.now, self._cool_down)
        others = rows[rows != self._snapshot.rows.find(back)] if back is not None else rows
        idle = self._idle(others)
        fits = idle[self._heat.within(self._settings.busy, pod, idle)]
        if not len(fits):
            room = f"{number_of(len(rows), 'other node', 'have')} room for it"
            return f"{room}, {len(idle)} idle, and none would stay so with it"
        target = self._target(pod, fits, others)
        self._bookings.hold(pod.key, self._name(target))
        self._bookings.end_wave()
        self.wanted.append(Wanted(pod.key, self._name(target)))
        for row, sign in ((source, -1), (target, 1)):
            self._heat.add(pod, row, sign)
            self._neighbours.add(pod, row, sign)
        return ""

    def _target(self, pod: Occupant, idle: RowIndex, takers: RowIndex) -> int:
        """The idlest node that is not being emptied; else where the pod would be packed to; else the idlest."""
        kept = idle[~self._emptied[idle]]
        if len(kept):
            return self._idlest(kept)
        for packing in self._neighbours.packing:
            full = packing.takers(pod, takers[self._part[takers]])
            full = full[self._heat.within(self._settings.busy, pod, full)]
            if len(full):
                return packing.fullest_first(full)[0]
        return self._idlest(idle)

    def _idlest(self, rows: RowIndex) -> int:
        order = np.lexsort((self._by_name[rows], self._heat.warmest(rows)))
        return int(rows[order[0]])

    def _name(self, row: int) -> str:
        return self._snapshot.rows.name(row) or ""
