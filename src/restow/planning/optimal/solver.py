"""Integer programs for the solver HiGHS: maximise value · x over whole numbers x with lower <= A x <= upper.

Goes in: an `IntegerProgram`, built by blocks of columns and rows, and the limits of the solver. Comes out: a
`SolverResult`, or None if the solver found nothing, failed, or is not installed. The solver uses one thread, so that
equal programs get equal results; only a time limit may change them.
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
    """HiGHS; None if it is not installed, or does not support this machine."""
    try:
        return importlib.import_module("highspy")
    except ImportError:
        return None


highspy = _library()


class SolverLimits(msgspec.Struct, frozen=True):
    """How long the solver may run."""

    seconds: float = UNBOUNDED
    max_branches: int | None = None
    """Nodes of the branch-and-bound tree."""
    is_late: DeadlineCheck = no_deadline
    """Called again and again during the run: whether to stop before the seconds are over."""
    on_progress: Callable[[], None] = lambda: None
    """Called again and again during the run."""
    on_answer: Callable[[], None] | None = None
    """Called at the end of the run, whatever the result, unless the solver failed."""


class SolverResult(msgspec.Struct, frozen=True, eq=False):
    values: Floats | None
    """One per column; None if no solution was found in time."""
    bound: float
    """An upper bound on the value of every solution."""
    is_proven: bool = False
    """Whether the solution is optimal."""
    dual_values: Floats | None = None
    """For a linear program: per row, the gain by one more unit of its upper limit."""


class IntegerProgram:
    """A maximisation that grows by blocks of columns, of rows and of terms."""

    def __init__(self) -> None:
        self._values: list[Floats] = []
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._row_lower: list[Floats] = []
        self._row_upper: list[Floats] = []
        self._terms: list[tuple[Index, Index, Floats]] = []
        self.column_count = 0
        self.row_count = 0

    def add_columns(self, value: ArrayLike, upper: ArrayLike, lower: float = 0.0) -> int:
        """Add integer variables, as many as there are in `upper`; returns the index of the first."""
        block = np.atleast_1d(np.asarray(upper, np.float64))
        self._values.append(np.broadcast_to(np.asarray(value, np.float64), block.shape))
        self._lower.append(np.full(len(block), lower))
        self._upper.append(block)
        self.column_count += len(block)
        return self.column_count - len(block)

    def add_rows(self, upper: ArrayLike, lower: float = -UNBOUNDED) -> int:
        """Add constraints without terms; returns the index of the first."""
        block = np.atleast_1d(np.asarray(upper, np.float64))
        self._row_lower.append(np.full(len(block), lower))
        self._row_upper.append(block)
        self.row_count += len(block)
        return self.row_count - len(block)

    def add_terms(self, rows: ArrayLike, columns: ArrayLike, factors: ArrayLike) -> None:
        """Add terms (row, column, factor). A single value is used for all terms."""
        row, column, factor = np.broadcast_arrays(
            np.asarray(rows, np.intp), np.asarray(columns, np.intp), np.asarray(factors, np.float64)
        )
        self._terms.append((row.ravel(), column.ravel(), factor.ravel()))

    def solve(
        self, limits: SolverLimits, *, whole: bool = True, start: Mapping[int, float] | None = None
    ) -> SolverResult | None:
        """The best solution found; None if the solver failed or the program is infeasible. `start` is a solution to
        begin with (columns that are not in it are 0). Without `whole` the linear relaxation is solved."""
        if not self.column_count:
            return SolverResult(np.zeros(0), 0.0)
        if highspy is None:
            return None
        try:
            return self._run_solver(limits, whole, start)
        except Exception:
            # Any error of a foreign library must not end planning: there always is a solution without it.
            return None

    def _run_solver(self, limits: SolverLimits, whole: bool, start: Mapping[int, float] | None) -> SolverResult | None:
        solver = self._solver(limits, whole)
        if start is not None and whole:
            initial = highspy.HighsSolution()
            values = np.zeros(self.column_count)
            values[list(start.keys())] = list(start.values())
            initial.col_value = values
            solver.setSolution(initial)
        if solver.run() == highspy.HighsStatus.kError:
            return None
        if limits.on_answer is not None:
            limits.on_answer()
        return _read_result(solver, whole)

    def _solver(self, limits: SolverLimits, whole: bool) -> Any:
        solver = highspy.Highs()
        for name, option in _OPTIONS.items():
            solver.setOptionValue(name, option)
        if math.isfinite(limits.seconds):
            solver.setOptionValue("time_limit", max(limits.seconds, 0.01))
        if limits.max_branches is not None:
            solver.setOptionValue("mip_max_nodes", limits.max_branches)
        solver.passModel(self._model(whole))

        # HiGHS calls this often; it is the only way to stop a run before its time limit.
        def check_deadline(event: Any) -> None:
            limits.on_progress()
            if limits.is_late():
                event.interrupt()

        for event in (solver.cbMipInterrupt, solver.cbSimplexInterrupt):
            event.subscribe(check_deadline)
        return solver

    def _model(self, whole: bool) -> Any:
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.column_count, self.row_count
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = _joined(self._values)
        model.col_lower_, model.col_upper_ = _with_infinity(self._lower), _with_infinity(self._upper)
        model.row_lower_, model.row_upper_ = _with_infinity(self._row_lower), _with_infinity(self._row_upper)
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
        cells, position = np.unique(columns * self.row_count + rows, return_inverse=True)
        summed = np.zeros(len(cells))
        np.add.at(summed, position.reshape(-1), factors)
        cells, summed = cells[summed != 0], summed[summed != 0]
        start = np.zeros(self.column_count + 1, np.int32)
        start[1:] = np.cumsum(np.bincount(cells // max(self.row_count, 1), minlength=self.column_count))
        return start, (cells % max(self.row_count, 1)).astype(np.int32), summed


_GAP = 0.49
"""The solver stops when bound and value differ by no more than this. Programs give less than half a unit to everything
that only breaks ties, so no better number of whole units is missed."""

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


def _with_infinity(blocks: Sequence[Floats]) -> Floats:
    """The limits in one array, with the numbers that HiGHS uses for infinity."""
    limits = _joined(blocks)
    limits[np.isposinf(limits)] = highspy.kHighsInf
    limits[np.isneginf(limits)] = -highspy.kHighsInf
    return limits


def _read_result(solver: Any, whole: bool) -> SolverResult | None:
    status, info = solver.getModelStatus(), solver.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    is_feasible = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    values = np.array(solver.getSolution().col_value) if is_feasible else None
    is_optimal = status == highspy.HighsModelStatus.kOptimal
    if whole:
        return SolverResult(
            values, info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else UNBOUNDED, is_optimal
        )
    dual_values = np.array(solver.getSolution().row_dual) if is_optimal else None
    return SolverResult(values, info.objective_function_value if is_optimal else UNBOUNDED, is_optimal, dual_values)
