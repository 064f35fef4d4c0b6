"""Integer programs, handed to HiGHS: maximise worth · x over whole numbers x with least ≤ A x ≤ most.

Goes in: a `Program` that was put together column by column and row by row, how long and how many branches the solver
may take. Comes out: an `Answer`, or None when the solver found nothing, broke or is not there at all. One thread, so
that equal programs get equal answers; only running out of seconds may change one.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from restow.planning.deadline import DeadlineCheck, no_deadline

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

UNBOUNDED = math.inf


def _library() -> Any:
    """HiGHS; None where it is not installed, or not for this machine."""
    try:
        return importlib.import_module("highspy")
    except ImportError:
        return None


highspy = _library()


class SolverLimits(msgspec.Struct, frozen=True):
    """How long the solver may take."""

    seconds: float = UNBOUNDED
    max_branches: int | None = None
    """Nodes of the search tree."""
    is_late: DeadlineCheck = no_deadline
    """Asked again and again meanwhile: whether to stop before the seconds are over."""
    on_progress: Callable[[], None] = lambda: None
    """Called again and again meanwhile."""
    on_answer: Callable[[], None] | None = None
    """Called when the solver has come back, whatever it says, unless it broke."""


class SolverResult(msgspec.Struct, frozen=True, eq=False):
    values: Floats | None
    """One per column; None if no solution was found in time."""
    bound: float
    """No solution is worth more."""
    is_proven: bool = False
    """Whether there is no better solution."""
    dual_values: Floats | None = None
    """Where fractions are allowed: per row what one more of its most would bring."""


class IntegerProgram:
    """A maximisation that grows by blocks of columns, of rows and of terms."""

    def __init__(self) -> None:
        self._worth: list[Floats] = []
        self._least: list[Floats] = []
        self._most: list[Floats] = []
        self._row_least: list[Floats] = []
        self._row_most: list[Floats] = []
        self._terms: list[tuple[Index, Index, Floats]] = []
        self.column_count = 0
        self.row_count = 0

    def add_columns(self, worth: ArrayLike, most: ArrayLike, least: float = 0.0) -> int:
        """New whole numbers, as many as there are in `most`: the index of the first."""
        block = np.atleast_1d(np.asarray(most, np.float64))
        self._worth.append(np.broadcast_to(np.asarray(worth, np.float64), block.shape))
        self._least.append(np.full(len(block), least))
        self._most.append(block)
        self.column_count += len(block)
        return self.column_count - len(block)

    def add_rows(self, most: ArrayLike, least: float = -UNBOUNDED) -> int:
        """New constraints without terms: the index of the first."""
        block = np.atleast_1d(np.asarray(most, np.float64))
        self._row_least.append(np.full(len(block), least))
        self._row_most.append(block)
        self.row_count += len(block)
        return self.row_count - len(block)

    def add_terms(self, rows: ArrayLike, columns: ArrayLike, factors: ArrayLike) -> None:
        """Row by column by factor; what is given once goes with all of the others."""
        row, column, factor = np.broadcast_arrays(
            np.asarray(rows, np.intp), np.asarray(columns, np.intp), np.asarray(factors, np.float64)
        )
        self._terms.append((row.ravel(), column.ravel(), factor.ravel()))

    def solve(
        self, effort: SolverLimits, *, whole: bool = True, start: Mapping[int, float] | None = None
    ) -> SolverResult | None:
        """The best solution found; None when the solver broke or there is none. `start` is a solution to begin with,
        columns left out being zero. With `whole` off, fractions are allowed: then the bound is the result."""
        if not self.column_count:
            return SolverResult(np.zeros(0), 0.0)
        if highspy is None:
            return None
        try:
            return self._solved(effort, whole, start)
        except Exception:  # whatever a foreign library may throw: who asked goes on with what there is
            return None

    def _solved(self, effort: SolverLimits, whole: bool, start: Mapping[int, float] | None) -> SolverResult | None:
        solver = self._solver(effort, whole)
        if start is not None and whole:
            given = highspy.HighsSolution()
            values = np.zeros(self.column_count)
            values[list(start.keys())] = list(start.values())
            given.col_value = values
            solver.setSolution(given)
        if solver.run() == highspy.HighsStatus.kError:
            return None
        if effort.on_answer is not None:
            effort.on_answer()
        return _answer(solver, whole)

    def _solver(self, effort: SolverLimits, whole: bool) -> Any:
        solver = highspy.Highs()
        for name, option in _OPTIONS.items():
            solver.setOptionValue(name, option)
        if math.isfinite(effort.seconds):
            solver.setOptionValue("time_limit", max(effort.seconds, 0.01))
        if effort.max_branches is not None:
            solver.setOptionValue("mip_max_nodes", effort.max_branches)
        solver.passModel(self._model(whole))

        def meanwhile(event: Any) -> None:
            effort.on_progress()
            if effort.is_late():
                event.interrupt()

        for event in (solver.cbMipInterrupt, solver.cbSimplexInterrupt):
            event.subscribe(meanwhile)
        return solver

    def _model(self, whole: bool) -> Any:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.column_count, self.row_count
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = _joined(self._worth)
        model.col_lower_, model.col_upper_ = _limits(self._least), _limits(self._most)
        model.row_lower_, model.row_upper_ = _limits(self._row_least), _limits(self._row_most)
        start, index, values = self._by_column()
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = start, index, values
        if whole:
            model.integrality_ = [highspy.HighsVarType.kInteger] * self.column_count
        return model

    def _by_column(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
        """The terms as a sparse matrix, column after column; those of the same row and column are one, their sum."""
        rows, columns = (_joined([block[part] for block in self._terms]).astype(np.int64) for part in (0, 1))
        factors = _joined([block[2] for block in self._terms])
        cells, which = np.unique(columns * self.row_count + rows, return_inverse=True)
        summed = np.zeros(len(cells))
        np.add.at(summed, which.reshape(-1), factors)
        cells, summed = cells[summed != 0], summed[summed != 0]
        start = np.zeros(self.column_count + 1, np.int32)
        start[1:] = np.cumsum(np.bincount(cells // max(self.row_count, 1), minlength=self.column_count))
        return start, (cells % max(self.row_count, 1)).astype(np.int32), summed


_GAP = 0.49
"""When to stop, in units of worth: programs give less than half a unit to everything that only breaks ties."""

_OPTIONS: Mapping[str, bool | int | float | str] = {
    "output_flag": False,
    "threads": 1,
    "parallel": "off",
    "mip_rel_gap": 0.0,
    "mip_abs_gap": _GAP,
    "mip_feasibility_tolerance": 1e-7,
}


def _joined(blocks: Sequence[NDArray[Any]]) -> Floats:
    return np.concatenate(blocks) if blocks else np.zeros(0)


def _limits(blocks: Sequence[Floats]) -> Floats:
    limits = _joined(blocks)
    limits[np.isposinf(limits)] = highspy.kHighsInf
    limits[np.isneginf(limits)] = -highspy.kHighsInf
    return limits


def _answer(solver: Any, whole: bool) -> SolverResult | None:
    status, info = solver.getModelStatus(), solver.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    found = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    values = np.array(solver.getSolution().col_value) if found else None
    solved = status == highspy.HighsModelStatus.kOptimal
    if whole:
        return SolverResult(values, info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else UNBOUNDED, solved)
    prices = np.array(solver.getSolution().row_dual) if solved else None
    return SolverResult(values, info.objective_function_value if solved else UNBOUNDED, solved, prices)
