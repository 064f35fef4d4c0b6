"""The extension points: what a plugin may say about a pod, about all nodes at once.

One attempt to place a pod, in this order (the names are kube-scheduler's):

    before the queue        PreEnqueue    may this pod be tried at all?
    in the queue            QueueSort     which pod is next?
    the scheduling cycle    PreFilter     once per pod: skip me, go on, or it is hopeless
      (pure, one pod        Filter        which nodes may it go to?
       at a time)           PostFilter    none: can anything be done about it?
                            PreScore, Score, NormalizeScore    which of them is best?
                            Reserve       take what the pod will need, in memory
                            Permit        go, wait, or no
    the binding cycle       PreBind       the writes that must come first, and whether they have settled
      (carried out by       Bind          the write that binds it
       `control`)           PostBind      it is done
    after any failure       Unreserve     give back, in reverse order, tolerating what was never taken
      from Reserve on

Filter and Score take rows and return arrays: a mask, or an integer score per row. `reach` says how far the news of one
row travels. A NODE plugin's answer for a row depends on nothing but the pod's class and the Node there, so it is asked
again only when the Node changed; a ROW plugin's depends on who is on the node, too, so it is asked again about rows
that changed in any way; a CLUSTER plugin's answer may depend on all rows, and on the volumes of the pod, which are no
concern of the others: pods with a claim each are alike to them.

Nothing here does I/O: a plugin that needs the API server to change returns the change as a value (`writes`).
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from restow.model.cluster import Mask, PodClass, Which
from restow.model.objects import Pod
from restow.model.snapshot import Snapshot
from restow.scheduling.writes import Write

Scores = NDArray[np.int64]

BEST = 100
"""The highest normalised score."""


class Code(enum.Enum):
    """The closed vocabulary of verdicts."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"  # refused; other pods leaving could change that
    UNRESOLVABLE = "UnschedulableAndUnresolvable"  # refused, whoever leaves
    WAIT = "Wait"
    SKIP = "Skip"
    ERROR = "Error"  # something broke; try again later


class Verdict(msgspec.Struct, frozen=True):
    """What a plugin says about a pod. A refusal is a value, and carries its reasons with numbers in them."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_refusal(self) -> bool:
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)


SUCCESS = Verdict()
SKIP = Verdict(Code.SKIP)
SKIP_FOR_CLASS = Verdict(Code.SKIP, ("for every pod of this class",))
"""SKIP for all pods of the class, until some Node changes, or what pods ask of others does (`Crowd.version`)."""


def unschedulable(*reasons: str) -> Verdict:
    return Verdict(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Verdict:
    return Verdict(Code.UNRESOLVABLE, reasons)


def wait(*reasons: str) -> Verdict:
    return Verdict(Code.WAIT, reasons)


def error(*reasons: str) -> Verdict:
    return Verdict(Code.ERROR, reasons)


class Refusal(msgspec.Struct, frozen=True):
    """One reason why some rows are refused. A row may be refused for several reasons at once (two resources short)."""

    reason: str
    rows: Mask
    """Over the rows asked about."""
    resolvable: bool = True
    """Whether other pods leaving the node could change it."""


class Reach(enum.Enum):
    NODE = "node"
    ROW = "row"
    CLUSTER = "cluster"


class Cycle:
    """One pod's attempt: the pod, the cluster as it is now, and what plugins note for their later selves."""

    __slots__ = ("_notes", "now", "pod", "pod_class", "snapshot")

    def __init__(self, pod: Pod, snapshot: Snapshot, now: float, pod_class: PodClass | None = None) -> None:
        self.pod = pod
        self.snapshot = snapshot
        self.now = now
        self.pod_class = pod_class or snapshot.classes.of(pod)
        self._notes: dict[str, Any] | None = None

    @property
    def state(self) -> dict[str, Any]:
        """What plugins note, by their names; about most pods nobody has anything to note."""
        if self._notes is None:
            self._notes = {}
        return self._notes


class Plugin(ABC):
    """The base of all. `name` is how configuration and messages call it; arguments come from configuration."""

    name: ClassVar[str]

    def __init__(self, arguments: Mapping[str, Any] | None = None) -> None:
        """Refuse unknown or wrong arguments with ArgumentError; the base takes none."""
        if arguments:
            raise ArgumentError([f"{key}: {self.name} takes no such argument" for key in sorted(arguments)])


def overrides(plugin: Plugin, base: type[Plugin], method: str) -> bool:
    """Whether a plugin defines a method itself; the default of the base needs no call."""
    return getattr(type(plugin), method) is not getattr(base, method)


class ArgumentError(ValueError):
    """A plugin's arguments are wrong; every problem with its path."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class PreEnqueuePlugin(Plugin):
    @abstractmethod
    def pre_enqueue(self, pod: Pod) -> Verdict: ...


class QueueSortPlugin(Plugin):
    """There is one at most; without any, the more important pods come first."""

    @abstractmethod
    def sort_key(self, pod: Pod) -> Any:
        """The smaller, the sooner; where it is equal, the older."""
        ...


class FilterPlugin(Plugin):
    reach: ClassVar[Reach] = Reach.ROW

    def pre_filter(self, cycle: Cycle) -> Verdict:
        """SUCCESS; SKIP when `filter` would accept every row; a refusal when no row can be accepted.

        What a NODE or ROW plugin says, unless it refuses, and NEVER from any, holds for all pods of the class until
        some Node changes; so notes for `filter` are for CLUSTER plugins, which are asked for every pod.
        """
        return SUCCESS

    @abstractmethod
    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        """Which of these rows the pod may go to, as far as this plugin is concerned. Vacant rows may say anything.

        What is free may be lent for the question (`Room.lend`), so it is read anew each time."""
        ...

    @abstractmethod
    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        """Why the rows that `filter` refuses are refused: every refused row is in at least one refusal."""
        ...


class PostFilterPlugin(Plugin):
    @abstractmethod
    def post_filter(self, cycle: Cycle, refused: Mapping[str, Sequence[Refusal]]) -> tuple[Verdict, str]:
        """No node passed. SUCCESS and a node: room will come free there and is kept for the pod, which is nominated to
        it and tried again on news, as always. SUCCESS and "": something else was done. UNSCHEDULABLE leaves it to the
        next plugin, UNRESOLVABLE says that nobody can help."""
        ...


class ScorePlugin(Plugin):
    reach: ClassVar[Reach] = Reach.ROW

    def pre_score(self, cycle: Cycle) -> Verdict:
        """SUCCESS, or SKIP when all rows would score the same; a NODE or ROW plugin as in `pre_filter`."""
        return SUCCESS

    @abstractmethod
    def score(self, cycle: Cycle, rows: Which) -> Scores:
        """The raw score of each row; the higher the better unless `normalize` turns it round."""
        ...

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        """From raw scores of all feasible rows to 0..BEST. A plugin without its own scores in 0..BEST at once.

        What becomes of a score may depend on it and on the least and greatest of all, not on how often each occurs:
        rows that are alike to everybody concerned are given once.
        """
        return raw


class ReservePlugin(Plugin):
    @abstractmethod
    def reserve(self, cycle: Cycle, node: str) -> Verdict: ...

    @abstractmethod
    def unreserve(self, cycle: Cycle, node: str) -> None:
        """The inverse; idempotent, and harmless where `reserve` never ran."""
        ...


class PermitPlugin(Plugin):
    @abstractmethod
    def permit(self, cycle: Cycle, node: str) -> tuple[Verdict, float]:
        """SUCCESS, WAIT with the seconds to wait at most, or a refusal."""
        ...


class PreBindPlugin(Plugin):
    @abstractmethod
    def pre_bind(self, cycle: Cycle, node: str) -> Sequence[Write]:
        """The writes that must be in the API before the pod is bound; none is common."""
        ...

    def settled(self, cycle: Cycle, node: str) -> Verdict:
        """Asked after the writes and after every later event: SUCCESS, WAIT, or ERROR when it will never settle."""
        return SUCCESS


class BindPlugin(Plugin):
    @abstractmethod
    def bind(self, cycle: Cycle, node: str) -> Sequence[Write] | None:
        """The writes that get somebody else to bind the pod to this node, which is then waited for. None leaves it to
        the next plugin, and at last to a Binding. A pod that takes a reserved seat is always bound by a Binding, which
        names the seat."""
        ...


class PostBindPlugin(Plugin):
    @abstractmethod
    def post_bind(self, cycle: Cycle, node: str) -> None: ...
