"""The rows cover the state machine: every condition in it is true in some row and false in another."""

from __future__ import annotations

import sys
from functools import partial

import pytest

from restow.migration import facts, following, instructions, preparing, seats, steps
from restow.migration.steps import next_step
from tests.migration.steps import test_admission, test_ending, test_evicting, test_leaving, test_reserving
from tests.migration.steps.branches import Branches

TABLES = (test_admission, test_reserving, test_evicting, test_leaving, test_ending)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="conditions are found in the bytecode of CPython 3.11")
def test_every_branch_is_taken_by_a_row() -> None:
    branches = Branches(steps, preparing, following, instructions, facts, seats)
    for table in TABLES:
        for row in table.ROWS:
            branches.watch(partial(next_step, row[1]))
    assert branches.never() == []
