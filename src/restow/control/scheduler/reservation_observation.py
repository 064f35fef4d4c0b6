"""Findings: how a reservation stands, from which its status is worked out.

Goes in: a reservation, the snapshot, who took seats (`takers`), and what was decided about it and is not written yet.
Comes out: `Facts`: every seat that it has, with the pod that took it or the trouble that it is in, what is wrong with
the spec, and why there is no room for what is missing.
"""

from __future__ import annotations

from msgspec.structs import replace

from restow.control.scheduler.event_handlers import EventHandlers
from restow.control.scheduler.takers import Takers, mark_of, works_for
from restow.model.cluster import SeatName
from restow.model.cluster.names import Key, key_of
from restow.model.cluster.seat import is_changed, wanted
from restow.model.objects import Placement, Reservation
from restow.model.problems import Problem
from restow.scheduling.engine import Engine
from restow.scheduling.reservations.changing import misfits
from restow.scheduling.reservations.growing import beyond_limits
from restow.scheduling.reservations.lifecycle import Facts, Found
from restow.scheduling.reservations.standing import Troubled, kept_off, troubles
from restow.scheduling.reservations.validity import problems


class ReservationObserver:
    def __init__(self, feed: EventHandlers, engine: Engine, takers: Takers, namespace_share: int) -> None:
        self._feed = feed
        self._snapshot = feed.snapshot
        self._book = feed.snapshot.reservations
        self._engine = engine
        self._takers = takers
        self._namespace_share = namespace_share
        self._refusals: dict[Key, tuple[int | None, str]] = {}
        """Why there is no room for what is missing, and the generation that this was said of."""
        self._hoping: dict[Key, bool] = {}
        """Given seats that others are still leaving, which their status does not say yet; and whether that was looked
        at, or is news."""
        self._looked: dict[Key, Reservation] = {}
        """As they were when they were looked at, until their status is written."""
        self._decided: dict[Key, Reservation] = {}
        """As they were when that was done."""
        self._checked: dict[Key, tuple[tuple[str, int | None], list[Problem]]] = {}

    # --- what was decided ---------------------------------------------------------------------------------------------

    def held(self, key: Key, *, hopes: bool) -> None:
        """Seats were found; perhaps others are still leaving them."""
        self._refusals.pop(key, None)
        if hopes:
            self._hoping[key] = False

    def declined(self, reservation: Reservation, message: str) -> None:
        """There is no room for what is missing."""
        self._refusals[key_of(reservation)] = (reservation.metadata.generation, message)

    def written(self, key: Key) -> None:
        """What was found is what its status says; not what was decided since."""
        if self._hoping.get(key):
            del self._hoping[key]
        if key in self._looked:
            self._decided[key] = self._looked.pop(key)

    def ended(self, key: Key) -> None:
        """Nothing will be decided about it any more."""
        self._hoping.pop(key, None)
        self._refusals.pop(key, None)
        self._looked.pop(key, None)
        self._decided.pop(key, None)

    def gone(self, key: Key) -> None:
        self._checked.pop(key, None)

    # --- looking ------------------------------------------------------------------------------------------------------

    def look(self, reservation: Reservation, now: float) -> Facts:
        self._feed.catch_up()
        key = key_of(reservation)
        hopes = key in self._hoping
        if hopes:
            self._hoping[key] = True
        self._looked[key] = reservation
        found = troubles(self._snapshot, self._engine, self._book.seats(*key), now)
        found = kept_off(self._snapshot, self._engine, reservation, now, hopes=hopes) | found
        if is_changed(reservation) and not self.problems(reservation):
            misfit = misfits(self._snapshot, self._engine, reservation, self._before(reservation), now)
            found |= {name: one for name, one in misfit.items() if one.trouble.is_loss or name not in found}
        gone = {name for name, troubled in found.items() if troubled.trouble.is_loss}
        found |= beyond_limits(self._snapshot, self._feed.roster, reservation, self._namespace_share, gone)
        seats = [self._found(name, one, found.get(name)) for name, one in self._placements(reservation).items()]
        generation, refusal = self._refusals.get(key, (None, None))
        return Facts(
            seats=seats,
            problems=self.problems(reservation),
            refusal=refusal if generation == reservation.metadata.generation else None,
            coming=self._book.promises.any_coming(reservation.metadata.uid),
        )

    def _before(self, reservation: Reservation) -> Reservation | None:
        """What one that was changed was when it was last decided about, if that was here."""
        before = self._decided.get(key_of(reservation))
        if before is None or before.metadata.uid != reservation.metadata.uid:
            return None
        return before if before.metadata.generation == reservation.status.observed_generation else None

    def problems(self, reservation: Reservation) -> list[Problem]:
        """What is wrong with its spec, looked for once per version of that."""
        key, version = key_of(reservation), (reservation.metadata.uid, reservation.metadata.generation)
        known = self._checked.get(key)
        if known is None or known[0] != version or version[1] is None:
            known = self._checked[key] = (version, problems(reservation))
        return known[1]

    def _found(self, name: SeatName, placement: Placement, troubled: Troubled | None) -> Found:
        pod = self._takers.of(name) if placement.pod_ref is None else None
        if pod is None:
            return Found(placement, troubled)
        node = pod.spec.node_name or placement.node_name
        return Found(replace(placement, node_name=node, pod_ref=mark_of(pod)), owner=works_for(pod))

    def _placements(self, reservation: Reservation) -> dict[SeatName, Placement]:
        """Those the status shows, each seat once; those that are assumed beyond it; and those that were taken although
        it does not show them (any more), of which somebody may ask for a seat of that name again."""
        key, wants = key_of(reservation), wanted(reservation)
        found = {SeatName.of(key, one): one for one in reservation.status.placements or ()}
        for seat in self._book.seats(*key):
            if seat.name not in found:
                found[seat.name] = Placement(task=seat.name.task, index=seat.name.index, node_name=seat.node)
        for name in self._takers.named(*key):
            is_asked_for = name.index < wants.get(name.task, 0) or self._takers.is_ours(name)
            if name not in found and is_asked_for and self._takers.of(name) is not None:
                found[name] = Placement(task=name.task, index=name.index, node_name="")
        return found
