"""Branches: which ways a program can go, and which of them it went.

Goes in: modules, and something to call while it is watched. Comes out: the ways that were never gone, as places in the
sources. A way is one outcome of one condition, wherever it is written: in `if`, `and`, `or`, a pattern or a loop. What
`assert` says never happens is left out, and `or ""`, by which something that is missing is read as empty.
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any

Trace = Callable[[FrameType, str, Any], Any]
Way = tuple[CodeType, int, int]
"""The code, the condition in it, and where it goes on."""
Place = tuple[int | None, ...]
"""Its first and last line, and the columns."""


class Branches:
    def __init__(self, *modules: ModuleType) -> None:
        self._possible = {way: place for module in modules for way, place in _ways(module)}
        self._watched = {code for code, _, _ in self._possible}
        self._gone: set[Way] = set()

    def watch(self, call: Callable[[], object]) -> None:
        """Call it, and note which ways it goes."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            call()
        finally:
            sys.settrace(before)

    def never(self) -> list[str]:
        """The ways that were never gone."""
        return sorted(place for way, place in self._possible.items() if way not in self._gone)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        code, last = frame.f_code, -1
        if code not in self._watched:
            return None

        def step(frame: FrameType, event: str, argument: Any) -> Trace:
            nonlocal last
            if event == "opcode":
                self._gone.add((code, last, frame.f_lasti))
                last = frame.f_lasti
            return step

        frame.f_trace_opcodes = True
        return step


def _ways(module: ModuleType) -> Iterator[tuple[Way, str]]:
    source, file = inspect.getsource(module), inspect.getsourcefile(module) or ""
    tree, text = ast.parse(source), source.splitlines()
    left_out = {place for node in ast.walk(tree) for place in _left_out(node)}
    for code in _codes(compile(source, file, "exec")):
        for place, outcome, way in _conditions(code):
            line = place[0] or 0
            if place not in left_out and line not in left_out:
                yield way, f"{module.__name__}:{line} {outcome}: {text[line - 1].strip()}"


def _left_out(node: ast.AST) -> Iterator[Place | int]:
    """The lines of a promise; where something that is missing is read as empty."""
    if isinstance(node, ast.Assert):
        yield from range(node.lineno, (node.end_lineno or 0) + 1)
    elif isinstance(node, ast.BoolOp) and ast.unparse(node.values[-1]) in ("''", "()", "{}", "None"):
        yield node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Code of functions, of what is inside them, and so on; equal to that of the module itself, which is loaded."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


def _conditions(code: CodeType) -> Iterator[tuple[Place, str, Way]]:
    """Both ways out of each condition, but for the one that only passes an error on."""
    steps = {step.offset: step for step in dis.get_instructions(code)}
    offsets, begins = [*steps], 0
    for number, step in enumerate(steps.values()):
        begins = begins if number and steps[offsets[number - 1]].opname == "EXTENDED_ARG" else step.offset
        name, _, condition = step.opname.partition("JUMP_")
        if name not in ("POP_", "") or "IF_" not in condition or step.positions is None:
            continue
        for target, outcome in ((step.argval, "never"), (offsets[number + 1], "always")):
            if steps[target].opname != "RERAISE":
                yield tuple(step.positions), f"{outcome} {condition}", (code, begins, target)
