"""Branches: which ways a program can go, and which of them it went.

Goes in: modules, which tell where their functions go while they are watched. Comes out: the ways that were never gone,
as places in the sources. A way is one outcome of one condition, wherever it is written: in `if`, `and`, `or`, a chain
of comparisons, a pattern, or what is done about an error. What `assert` says never happens is left out, and `or ""`, by
which something that is missing is read as empty.

Conditions are found in the sources, so it does not matter which Python runs them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any, Self

TOLD = "__told__"
"""What conditions are wrapped in, while they are watched."""
_Placed = ast.expr | ast.pattern | ast.ExceptHandler
Way = tuple[str, bool]
"""A condition by its place, and one outcome of it."""


class Branches:
    def __init__(self, *modules: ModuleType) -> None:
        self._modules = modules
        self._possible: set[Way] = set()
        self._gone: set[Way] = set()
        self._codes: list[tuple[FunctionType, CodeType]] = []
        for module in modules:
            telling = _Telling(module)
            told = compile(telling.tree, inspect.getsourcefile(module) or "", "exec")
            self._codes += [(one, _code(told, one)) for one in _functions(module, module)]
            self._possible |= telling.ways

    def __enter__(self) -> Self:
        for module in self._modules:
            vars(module)[TOLD] = self._tell
        self._swap()
        return self

    def __exit__(self, *_: object) -> None:
        self._swap()
        for module in self._modules:
            del vars(module)[TOLD]

    def never(self) -> list[str]:
        """The ways that were never gone."""
        return sorted(f"{place}: never {outcome}" for place, outcome in self._possible - self._gone)

    def _tell(self, place: str, outcome: Any) -> Any:
        self._gone.add((place, bool(outcome)))
        return outcome

    def _swap(self) -> None:
        """What is called, for what was called before."""
        for number, (function, code) in enumerate(self._codes):
            self._codes[number] = function, function.__code__
            function.__code__ = code


def _functions(scope: ModuleType | type, module: ModuleType) -> Iterator[FunctionType]:
    """Those that a module defines, in its classes too."""
    for one in vars(scope).values():
        one = getattr(one, "fget", None) or getattr(one, "__func__", one)
        if getattr(one, "__module__", None) != module.__name__:
            continue
        if isinstance(one, type):
            yield from _functions(one, module)
        elif isinstance(one, FunctionType) and one.__code__.co_filename == module.__file__:
            yield one


def _code(told: CodeType, function: FunctionType) -> CodeType:
    return next(one for one in _inside(told) if one.co_qualname == function.__qualname__)


def _inside(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _inside(one)


class _Telling(ast.NodeTransformer):
    """The sources of a module, in which every condition tells its outcome, and the ways there are."""

    def __init__(self, module: ModuleType) -> None:
        source = inspect.getsource(module)
        self.ways: set[Way] = set()
        self._name = module.__name__
        self._lines = source.splitlines()
        self.tree = ast.fix_missing_locations(self.visit(ast.parse(source)))

    def _told(self, node: _Placed, value: ast.expr, *outcomes: bool) -> ast.expr:
        line, column = node.lineno, node.col_offset
        place = f"{self._name}:{line}:{column} {self._lines[line - 1].strip()}"
        self.ways |= {(place, outcome) for outcome in outcomes}
        call = ast.Call(ast.Name(TOLD, ast.Load()), [ast.Constant(place), value], [])
        return ast.copy_location(call, node)

    def _condition(self, node: ast.expr) -> ast.expr:
        """All of which a decision is made of."""
        if isinstance(node, ast.BoolOp):
            node.values = [self._condition(one) for one in node.values]
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self._condition(node.operand)
            return node
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self._condition(_unchained(node))
        return self._told(node, self.visit(node), True, False)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        """What a module does when it is loaded is not watched."""
        for scope in ast.walk(node):
            if isinstance(scope, ast.Module | ast.ClassDef):
                scope.body = [self.visit(one) if isinstance(one, ast.FunctionDef) else one for one in scope.body]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node

    def visit_If(self, node: ast.If | ast.IfExp | ast.While) -> ast.AST:
        test = self._condition(node.test)
        node.test = ast.Constant(True)
        self.generic_visit(node)
        node.test = test
        return node

    visit_IfExp = visit_While = visit_If

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        tests = [self._condition(one) for one in node.ifs]
        node.ifs = []
        self.generic_visit(node)
        node.ifs = tests
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """A BoolOp of which the value is used: the last operand is only visited."""
        *first, last = node.values
        asked = self.visit if ast.unparse(last) in ("''", "()", "{}", "None") else self._condition
        node.values = [*map(asked, first), self.visit(last)]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return self.visit(_unchained(node)) if len(node.ops) > 1 else self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(self._told(node, ast.Constant(True), True)))
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.visit(node.subject)
        node.cases = [case for one in node.cases for case in self._cases(one)]
        return node

    def _cases(self, case: ast.match_case) -> Iterator[ast.match_case]:
        """Each pattern by itself: a match is told, and so is a case that was passed by."""
        body = [self.visit(one) for one in case.body]
        guard = self._condition(case.guard) if case.guard is not None else None
        for pattern in case.pattern.patterns if isinstance(case.pattern, ast.MatchOr) else [case.pattern]:
            if _is_anything(pattern) and guard is None:
                yield ast.match_case(pattern, None, body)
                return
            matches = self._told(pattern, ast.Constant(True), True, False)
            both = ast.BoolOp(ast.And(), [matches, deepcopy(guard)]) if guard is not None else matches
            yield ast.match_case(pattern, both, deepcopy(body))
            yield ast.match_case(ast.MatchAs(), self._told(pattern, ast.Constant(False)), [ast.Pass()])


def _unchained(node: ast.Compare) -> ast.BoolOp:
    """`a < b < c` as `a < b and b < c`; what is in the middle may be asked twice, because nothing happens by asking."""
    sides = [node.left, *node.comparators]
    links = [
        ast.copy_location(ast.Compare(deepcopy(left), [op], [deepcopy(right)]), right)
        for (left, right), op in zip(pairwise(sides), node.ops, strict=True)
    ]
    return ast.copy_location(ast.BoolOp(ast.And(), list(links)), node)


def _is_anything(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None
