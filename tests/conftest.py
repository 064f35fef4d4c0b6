"""What holds for every test: what was collected stays to the end, so nobody looks for garbage among it; what a test
leaves behind is looked for, even if it ran a command that does without."""

from __future__ import annotations

import gc


def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown() -> None:
    gc.enable()
