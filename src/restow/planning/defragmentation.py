"""Defragmentation: pods of little used nodes move to well used ones, so that room gathers on the nodes they leave.

    sources   Ready, every lowThreshold strictly above their use, not labelled critical=true, not resting; least used
              first
    pods      of a source, those that may move; largest request of the resource type first
    targets   Ready, use strictly between every defragmentThreshold and protectionThreshold; most used first, as use
              grows with the moves planned; a move never brings one above a protectionThreshold

Use is what all pods request and reservations hold, per what the node offers; a node that does not offer a resource
there is a threshold for is neither. Unless there are more sources than `numberOfNodes`, nothing happens. With
`onlyIfEmptied` a source is left alone if one of its guests has to stay.
"""

from __future__ import annotations

import numpy as np

from restow.model.cluster import Mask, Occupant, PodClass, Snapshot
from restow.planning.arguments import Defragmentation, read_defragmentation
from restow.planning.bookings import Bookings
from restow.planning.cooldown import resting
from restow.planning.effect import after, versions
from restow.planning.measures import is_ready, name_order, overview
from restow.planning.movable import about_all, foreign_refusal, guests_of, refused
from restow.planning.plan import Measures, Plan, Refusal
from restow.planning.request import Request
from restow.planning.sequence import Wanted, sequence
from restow.planning.use import Percents, Use
from restow.scheduling.explain import counted, histogram

CRITICAL_LABEL = "critical"


def defragmentation(snapshot: Snapshot, request: Request) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_defragmentation(request.arguments)

    def measure(cluster: Snapshot) -> Measures:
        return overview(cluster, sorted({*settings.low, *settings.defragment, *settings.protection}))

    before = measure(snapshot)
    with Bookings(snapshot, request.engine, request.now) as bookings:
        run = _Run(bookings, request, settings)
        refusals = run.run()
    ordered = sequence(snapshot, request, run.wanted, most=request.max_moves)
    return Plan(
        strategy="defragmentation",
        moves=ordered.moves,
        before=before,
        after=after(snapshot, request, ordered.moves, measure),
        refusals=(*refusals, *ordered.dropped, *foreign_refusal(snapshot, request.mobility)),
        versions=versions(snapshot, ordered.moves),
    )


class _Run:
    def __init__(self, bookings: Bookings, request: Request, settings: Defragmentation) -> None:
        self.wanted: list[Wanted] = []
        self._bookings = bookings
        self._snapshot = snapshot = bookings.snapshot
        self._request = request
        self._settings = settings
        self._use = use = Use(snapshot, {*settings.low, *settings.defragment, *settings.protection})
        self._by_name = name_order(snapshot)
        ready = is_ready(snapshot)
        self._targets: Mask = ready & use.above(settings.defragment) & use.below(settings.protection)
        self._low: Mask = ready & use.below(settings.low)
        self._unplaced: list[Occupant] = []

    def run(self) -> list[Refusal]:
        """Book moves until nothing is left to do; what stays, and why."""
        settings = self._settings
        low, targets = int(self._low.sum()), int(self._targets.sum())
        if low <= settings.number_of_nodes:
            needed = f"; numberOfNodes {settings.number_of_nodes} asks for more" if settings.number_of_nodes else ""
            return [about_all(f"{low} nodes are below lowThresholds ({_told(settings.low)}){needed}")]
        if not targets:
            above, below = _told(settings.defragment), _told(settings.protection)
            return [about_all(f"no node is between defragmentThresholds ({above}) and protectionThresholds ({below})")]
        refusals: list[Refusal] = []
        for number, node in enumerate(sources := self._sources()):
            if len(self.wanted) >= self._request.max_moves:
                left = len(sources) - number
                refusals.append(
                    about_all(f"{left} more sources are left after {len(self.wanted)} moves, the most asked for")
                )
                break
            refusals += self._leave(node)
        return refusals + self._explain_unplaced()

    def _sources(self) -> list[str]:
        rest = resting(self._snapshot, self._request.migrated, self._request.now, self._settings.cool_down)
        rows = np.flatnonzero(self._low)
        order = np.lexsort((self._by_name[rows], self._use.rate(self._settings.resource, rows)))
        names = (self._snapshot.rows.name(row) or "" for row in rows[order].tolist())
        return [name for name in names if name not in rest and not _is_critical(self._snapshot, name)]

    def _leave(self, node: str) -> list[Refusal]:
        """Move the pods of one source; those that may not, and why."""
        guests = guests_of(self._snapshot, node, self._request.mobility)
        reasons = [(one, self._settings.pods.why_not(one.pod)) for one in guests.movable]
        refusals = [*guests.refusals, *(refused(one.pod, why) for one, why in reasons if why)]
        pods = [one for one, why in reasons if not why]
        stay = guests.staying + len(guests.movable) - len(pods)
        left = self._request.max_moves - len(self.wanted)
        if self._settings.only_if_emptied and (stay or len(pods) > left):
            why = f"{stay} of {stay + len(pods)} pods stay there" if stay else f"only {left} more moves are asked for"
            return [*refusals, *(refused(one.pod, f"{node} could not be emptied: {why}") for one in pods)]
        pods.sort(key=lambda one: (-self._use.request(self._settings.resource, one), _full_name(one)))
        with self._bookings.trying() as keep:
            moved = [(one, self._move(one)) for one in pods[:left]]
            unplaced = [one for one, row in moved if row is None]
            if not (self._settings.only_if_emptied and unplaced):
                self.wanted += [self._wanted(one, row) for one, row in moved if row is not None]
                self._unplaced += unplaced
                keep()
                return refusals
        for one, row in moved:
            if row is not None:
                self._use.add(one, row, -1)
        why = f"{len(unplaced)} of {len(pods)} pods find no target"
        return [*refusals, *(refused(one.pod, f"{node} could not be emptied: {why}") for one in pods)]

    def _move(self, pod: Occupant) -> int | None:
        """Hold the most used target that takes the pod; None if there is none."""
        rows = self._bookings.choices(pod.key)
        rows = rows[self._targets[rows]]
        rows = rows[self._use.within(self._settings.protection, pod, rows)]
        if not len(rows):
            return None
        rates = self._use.rate(self._settings.resource, rows)
        best = rows[rates == rates.max()]
        row = int(best[self._by_name[best].argmin()])
        self._bookings.hold(pod.key, self._snapshot.rows.name(row) or "")
        self._use.add(pod, row)
        return row

    def _wanted(self, pod: Occupant, row: int) -> Wanted:
        return Wanted(pod.key, self._snapshot.rows.name(row) or "")

    # --- why not ------------------------------------------------------------------------------------------------------

    def _explain_unplaced(self) -> list[Refusal]:
        """Why pods found no target, as it is once all moves are booked; asked once for pods that are alike."""
        told: dict[PodClass, str] = {}
        refusals: list[Refusal] = []
        for one in self._unplaced:
            alike = self._snapshot.class_of(one.pod, one.shape)
            if alike not in told:
                told[alike] = self._why_unplaced(one)
            refusals.append(refused(one.pod, told[alike]))
        return refusals

    def _why_unplaced(self, pod: Occupant) -> str:
        targets = np.flatnonzero(self._targets)
        survey = self._bookings.survey(pod.key, targets)
        reasons = counted(survey.refusals)
        rows = np.array([self._snapshot.rows.find(name) for name in survey.feasible], np.intp)
        full = int(np.count_nonzero(~self._use.within(self._settings.protection, pod, rows)))
        if full:
            reasons[f"would be above protectionThresholds ({_told(self._settings.protection)})"] = full
        return f"0/{len(targets)} target nodes take it: {histogram(reasons)}" if reasons else survey.message


def _told(percents: Percents) -> str:
    return ", ".join(f"{name} {percents[name]:g}%" for name in sorted(percents))


def _full_name(one: Occupant) -> tuple[str, str]:
    return one.pod.metadata.namespace or "default", one.pod.metadata.name


def _is_critical(snapshot: Snapshot, name: str) -> bool:
    node = snapshot.node(name)
    return node is not None and (node.metadata.labels or {}).get(CRITICAL_LABEL) == "true"
