"""Garbage collection for all tests.

Objects of the collection live to the end of the run, so they are frozen: the collector does not visit them again. A
test may run a command that disables the collector, so it is enabled again after each test.
"""

from __future__ import annotations

import gc


def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown() -> None:
    gc.enable()
