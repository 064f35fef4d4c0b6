"""LoadAware: pods of nodes that are really busy move to nodes that are really idle.

    args: {thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 70, memory: 70}, numberOfNodes: 0,
           coolDownTime: 600, maxAge: 5m, evictableNamespaces: {exclude: [kube-system]}, labelSelector: …}

    use       what is measured, per what the node offers; older than maxAge is as good as not measured
    sources   Ready, above one targetThreshold, busiest first, until they are not
    pods      of a source, those that may move and are measured; most of the overused resource first
    targets   Ready, not cordoned, below every threshold; the idlest that takes the pod by the scheduler's own filters,
              and that no targetThreshold is passed with what the pod uses

Nodes that rest after a migration, whoever caused it, are neither: what is measured there is of before. A pod is not
sent back within the cool-down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from restow.model.cluster import Occupant, Snapshot
from restow.model.objects import Duration
from restow.model.problems import Problem, join
from restow.model.resources import CPU, MEMORY, PODS
from restow.model.times import parse_duration
from restow.model.wire import WireError, convert
from restow.planning.arguments import StrategyArgs, pod_filter, shared_problems
from restow.planning.bookings import Bookings
from restow.planning.cooldown import moved_from, resting
from restow.planning.effect import after, versions
from restow.planning.measured import Measured, Sample
from restow.planning.measures import is_ready, offered, overview
from restow.planning.movable import about_all, foreign_refusal, guests_of, refused
from restow.planning.plan import Measures, Plan, Refusal
from restow.planning.request import Request
from restow.planning.sequence import Wanted, sequence

LOAD_AWARE: Final = "LoadAware"


class LoadAwareArgs(StrategyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {CPU: 40.0, MEMORY: 40.0})
    target_thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {CPU: 70.0, MEMORY: 70.0})
    number_of_nodes: int = 0
    max_age: Duration = "5m"


def read_load_aware(arguments: Mapping[str, Any]) -> LoadAwareArgs:
    """Raises WireError."""
    written = convert(LoadAwareArgs, arguments, LOAD_AWARE)
    problems = [*shared_problems(written), *_problems(written)]
    pod_filter(written, problems)
    if problems:
        raise WireError(LOAD_AWARE, problems)
    return written


def _problems(written: LoadAwareArgs) -> Iterator[Problem]:
    for field, percents in (("thresholds", written.thresholds), ("targetThresholds", written.target_thresholds)):
        for name, percent in percents.items():
            if name not in (CPU, MEMORY, PODS):
                yield Problem(join(field, name), f"only {CPU}, {MEMORY} and {PODS} are measured")
            if not 0 <= percent <= 100:
                yield Problem(join(field, name), f"must be from 0 to 100 percent, is {percent:g}")
    if written.thresholds.keys() != written.target_thresholds.keys() or not written.thresholds:
        yield Problem("targetThresholds", "must be about the same resources as thresholds, at least one")
    for name in sorted(written.thresholds.keys() & written.target_thresholds.keys()):
        low, high = written.thresholds[name], written.target_thresholds[name]
        if low > high:
            yield Problem(join("thresholds", name), f"is {low:g}, above {join('targetThresholds', name)}, {high:g}")
    if written.number_of_nodes < 0:
        yield Problem("numberOfNodes", f"must not be negative, is {written.number_of_nodes}")
    if parse_duration(written.max_age) <= 0:
        yield Problem("maxAge", f"must be above 0, is {written.max_age}")


def load_aware(snapshot: Snapshot, request: Request) -> Plan:
    """Plan by the rules above. Raises WireError for wrong arguments."""
    settings = read_load_aware(request.arguments)
    with Bookings(snapshot, request.engine, request.now) as bookings:
        run = _Run(bookings, request, settings)
        refusals = run.run()
    ordered = sequence(snapshot, request, run.wanted, most=request.max_moves)

    def measure(cluster: Snapshot) -> Measures:
        return overview(cluster, (CPU, MEMORY))

    return Plan(
        strategy="load-aware",
        moves=ordered.moves,
        before={**measure(snapshot), **run.before},
        after={**after(snapshot, request, ordered.moves, measure), **run.figures()},
        refusals=(*refusals, *ordered.dropped, *foreign_refusal(snapshot, request.mobility)),
        versions=versions(snapshot, ordered.moves),
    )


class _Run:
    def __init__(self, bookings: Bookings, request: Request, settings: LoadAwareArgs) -> None:
        self.wanted: list[Wanted] = []
        self._bookings = bookings
        self._snapshot = snapshot = bookings.snapshot
        self._request = request
        self._settings = settings
        self._pods = pod_filter(settings, [])
        self._offers = {name: offered(snapshot, name) for name in settings.thresholds}
        self._measured = request.measured or Measured(trouble="nobody measures")
        rest = resting(snapshot, request.migrated, request.now, float(settings.cool_down_time))
        self._use = {name: use for name, use in self._uses() if name not in rest}
        self.before = self.figures()

    def _uses(self) -> Iterator[tuple[str, dict[str, float]]]:
        """By node that is measured: the percent it uses of each resource."""
        snapshot, ready = self._snapshot, is_ready(self._snapshot)
        offers = self._offers
        for row in np.flatnonzero(ready).tolist():
            name = snapshot.rows.name(row) or ""
            sample = self._fresh(self._measured.nodes.get(name))
            if sample is None or any(offers[one].item(row) <= 0 for one in offers):
                continue
            used = {**sample.amounts, PODS: len(snapshot.occupants(name))}
            yield name, {one: 100.0 * used.get(one, 0) / offers[one].item(row) for one in offers}

    def _fresh(self, sample: Sample | None) -> Sample | None:
        if sample is None or self._request.now - sample.at > parse_duration(self._settings.max_age):
            return None
        return sample

    def figures(self) -> Measures:
        return {"measuredNodes": len(self._use), "busyNodes": sum(self._is_busy(name) for name in self._use)}

    # --- planning -----------------------------------------------------------------------------------------------------

    def run(self) -> list[Refusal]:
        stale = sum(self._fresh(one) is None for one in self._measured.nodes.values())
        told = [about_all(f"{stale} nodes were measured more than {self._settings.max_age} ago")] if stale else []
        if not self._measured.nodes:
            return [about_all(f"there is no measured use: {self._measured.trouble}")]
        busy = [name for name in self._use if self._is_busy(name)]
        idle = [name for name in self._use if self._is_idle(name)]
        if not busy:
            return [*told, about_all(f"none of {len(self._use)} measured nodes is above targetThresholds")]
        if not idle or len(idle) <= self._settings.number_of_nodes:
            return [*told, about_all(f"{len(idle)} of {len(self._use)} measured nodes are below thresholds")]
        for name in sorted(busy, key=lambda one: (-self._excess(one), one)):
            told += self._relieve(name)
        return told

    def _is_busy(self, name: str) -> bool:
        return self._excess(name) > 0

    def _excess(self, name: str) -> float:
        """By how many points a node is above the targetThreshold that it is most above."""
        return max(self._use[name][one] - most for one, most in self._settings.target_thresholds.items())

    def _is_idle(self, name: str) -> bool:
        node = self._snapshot.node(name)
        below = all(self._use[name][one] < least for one, least in self._settings.thresholds.items())
        return below and node is not None and not node.spec.unschedulable

    def _relieve(self, node: str) -> list[Refusal]:
        """Move pods of a busy node until it is not; those that stay, and why."""
        guests = guests_of(self._snapshot, node, self._request.mobility)
        refusals = list(guests.refusals)
        candidates: list[tuple[Occupant, Sample]] = []
        for one in guests.movable:
            sample = self._fresh(self._measured.pods.get(_name(one)))
            why = self._pods.why_not(one.pod) or ("" if sample else "what it uses is not measured")
            if why or sample is None:
                refusals.append(refused(one.pod, why))
            else:
                candidates.append((one, sample))
        for one, sample in sorted(candidates, key=lambda pair: self._heaviest_first(node, *pair)):
            if not self._is_busy(node) or len(self.wanted) >= self._request.max_moves:
                break
            why = self._move(one, sample, node)
            if why:
                refusals.append(refused(one.pod, why))
        return refusals

    def _heaviest_first(self, node: str, one: Occupant, sample: Sample) -> tuple[object, ...]:
        limits = self._settings.target_thresholds
        over = [name for name in limits if self._use[node][name] > limits[name]]
        main = CPU if CPU in over else next(iter(over), CPU)
        return -sample.amounts.get(main, 0), *_name(one)

    def _move(self, pod: Occupant, sample: Sample, source: str) -> str:
        """Hold the idlest node that takes the pod; why not, if there is none."""
        snapshot = self._snapshot
        back = moved_from(pod.pod, self._request.now, float(self._settings.cool_down_time))
        names = [snapshot.rows.name(row) or "" for row in self._bookings.choices(pod.key).tolist()]
        idle = [name for name in names if name in self._use and name != back and self._is_idle(name)]
        fits = [name for name in idle if self._stays_within(name, sample)]
        if not fits:
            return f"{len(names)} other nodes have room for it, {len(idle)} are idle, and none would stay so with it"
        target = min(fits, key=lambda name: (max(self._use[name].values()), name))
        self._bookings.hold(pod.key, target)
        self._bookings.end_wave()
        self.wanted.append(Wanted(pod.key, target))
        for node, sign in ((source, -1.0), (target, 1.0)):
            for name, points in self._points(node, sample).items():
                self._use[node][name] += sign * points
        return ""

    def _stays_within(self, node: str, sample: Sample) -> bool:
        points = self._points(node, sample)
        limits = self._settings.target_thresholds
        return all(self._use[node][name] + points[name] <= most for name, most in limits.items())

    def _points(self, node: str, sample: Sample) -> dict[str, float]:
        """What a pod uses, in percent of what a node offers."""
        row = self._snapshot.rows.find(node)
        used = {**sample.amounts, PODS: 1}
        return {
            name: 100.0 * used.get(name, 0) / max(offers.item(row or 0), 1) for name, offers in self._offers.items()
        }


def _name(one: Occupant) -> tuple[str, str]:
    return one.pod.metadata.namespace or "default", one.pod.metadata.name
