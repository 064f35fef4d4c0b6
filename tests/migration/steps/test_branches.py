"""The rows cover the state machine: every condition in it is true in some row and false in another."""

from __future__ import annotations

from restow.migration import (
    after_eviction,
    before_eviction,
    eviction_rules,
    facts,
    facts_after,
    facts_before,
    job_rules,
    pod_rules,
    seat_rules,
    state_machine,
    steps,
    successor_seats,
)
from restow.migration.state_machine import next_step
from tests.migration.steps import (
    test_admission,
    test_ending,
    test_evicting,
    test_given_reservation,
    test_leaving,
    test_reserving,
    test_successors,
)
from tests.migration.steps.branches import Branches

MODULES = (
    state_machine,
    job_rules,
    before_eviction,
    pod_rules,
    seat_rules,
    eviction_rules,
    after_eviction,
    steps,
    facts,
    facts_before,
    facts_after,
    successor_seats,
)
TABLES = (
    test_admission,
    test_reserving,
    test_given_reservation,
    test_evicting,
    test_leaving,
    test_successors,
    test_ending,
)


def test_every_branch_is_taken_by_a_row() -> None:
    with Branches(*MODULES) as branches:
        for table in TABLES:
            for row in table.ROWS:
                next_step(row[1])
    assert branches.never() == []
