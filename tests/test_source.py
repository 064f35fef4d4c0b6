"""Limits of size that ruff does not check: lines of a file and methods of a class.

Complexity and the number of arguments are checked by ruff (C901, PLR0913), see pyproject.toml.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ("src", "tests", "e2e", "bench", "examples")
MAX_LINES = 450
MAX_METHODS = 25


def python_files() -> Iterator[Path]:
    for folder in SOURCES:
        yield from sorted((ROOT / folder).rglob("*.py"))


def long_classes(source: str, limit: int) -> list[str]:
    """The classes with more methods than that, each with the number."""
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    counts = {
        node.name: sum(isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) for member in node.body)
        for node in classes
    }
    return [f"{name}: {count} methods" for name, count in counts.items() if count > limit]


def test_no_file_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in python_files()}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}


def test_no_class_has_too_many_methods() -> None:
    long_by_file = {str(path.relative_to(ROOT)): long_classes(path.read_text(), MAX_METHODS) for path in python_files()}
    assert {name: classes for name, classes in long_by_file.items() if classes} == {}


@pytest.mark.parametrize(("limit", "reported"), [(2, []), (1, ["A: 2 methods"])], ids=["within", "beyond"])
def test_methods_of_a_class_are_counted(limit: int, reported: list[str]) -> None:
    source = "class A:\n    x = 1\n    def a(self): ...\n    async def b(self):\n        def inner(): ...\n"
    assert long_classes(source, limit) == reported
