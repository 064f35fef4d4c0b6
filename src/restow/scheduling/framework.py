"""The extension points: the interface of plugins.

The names are kube-scheduler's. One attempt to place a pod runs them in this order:

    before the queue        PreEnqueue      may this pod be tried at all?
    in the queue            QueueSort       which pod is next?
    the scheduling cycle    PreFilter       once per pod: skip this plugin, go on, or no node can be accepted
      (pure, one pod        Filter          which nodes may the pod go to?
       at a time)           PostFilter      none: can anything be done about it?
                            PreScore        once per pod: skip this plugin, or go on
                            Score           which of the nodes is best?
                            NormalizeScore  scores to 0..100
                            Reserve         take what the pod will need, in memory
                            Permit          approve, wait, or refuse
    the binding cycle       PreBind         the writes that must come first, and whether they have taken effect
      (carried out by       Bind            the write that binds the pod
       `control`)           PostBind        the pod is bound
    after any failure       Unreserve       give back, in reverse order; harmless if nothing was taken
      from Reserve on

Unlike kube-scheduler, Filter and Score answer for many nodes at once: they take rows (the places of nodes in the arrays
of the snapshot) and return a mask, or an integer score per row. `reach` says what an answer for a row depends on, so
that it is asked for again only when that changed:

    NODE      the pod's class and the Node object
    ROW       also the pods on the node and its room
    CLUSTER   anything, such as other rows and the volumes of the pod; asked for every pod

Two pods that differ only in their claims are of one class, so that only CLUSTER plugins may read volumes.

Plugins do no I/O: a plugin that needs a change in the API returns it as a value (`writes`). What the built-in plugins
offer beyond this interface, to be asked less often, is in `accelerated`.
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
    """What a verdict says (kube-scheduler's Code)."""

    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"  # refused; other pods leaving could change that
    UNRESOLVABLE = "UnschedulableAndUnresolvable"  # refused, whichever pods leave
    WAIT = "Wait"
    SKIP = "Skip"
    ERROR = "Error"  # something broke; try again later


class Verdict(msgspec.Struct, frozen=True):
    """What a plugin says about a pod (kube-scheduler's Status). A refusal carries its reasons, with numbers in them."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_refusal(self) -> bool:
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)


SUCCESS = Verdict()
SKIP = Verdict(Code.SKIP)
SKIP_FOR_CLASS = Verdict(Code.SKIP, ("for every pod of this class",))
"""SKIP for all pods of the class, until a Node or an affinity term changes (`AffinityIndex.version`)."""


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
    """What the answer of a plugin for a row depends on; see above."""

    NODE = "node"
    ROW = "row"
    CLUSTER = "cluster"


class Cycle:
    """One pod's attempt: the pod, the cluster as it is now, and what plugins keep for later extension points."""

    __slots__ = ("_state", "now", "pod", "pod_class", "snapshot")

    def __init__(self, pod: Pod, snapshot: Snapshot, now: float, pod_class: PodClass | None = None) -> None:
        self.pod = pod
        self.snapshot = snapshot
        self.now = now
        self.pod_class = pod_class or snapshot.classes.of(pod)
        self._state: dict[str, Any] | None = None  # few pods need one

    @property
    def state(self) -> dict[str, Any]:
        """What plugins keep from one extension point to the next, by plugin name (kube-scheduler's CycleState)."""
        if self._state is None:
            self._state = {}
        return self._state


class Plugin(ABC):
    """The base of all plugins. Configuration and messages use `name`; the arguments come from the configuration."""

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
    """There is one at most; without any, pods are sorted by priority."""

    @abstractmethod
    def sort_key(self, pod: Pod) -> Any:
        """The smaller, the sooner; of pods with equal keys, the oldest is first."""
        ...


class FilterPlugin(Plugin):
    reach: ClassVar[Reach] = Reach.ROW

    def pre_filter(self, cycle: Cycle) -> Verdict:
        """SUCCESS; SKIP if `filter` would accept every row; a refusal if no row can be accepted.

        SUCCESS and SKIP of a NODE or ROW plugin, and SKIP_FOR_CLASS of any, hold for all pods of the class until a Node
        changes. So only CLUSTER plugins, which are asked for every pod, may keep state for `filter`.
        """
        return SUCCESS

    @abstractmethod
    def filter(self, cycle: Cycle, rows: Which) -> Mask:
        """Which of these rows the pod may go to, as far as this plugin is concerned. Rows without a node may say
        anything. Free room must be read anew at each call: it is changed for the length of a question (`Room.lend`)."""
        ...

    @abstractmethod
    def refusals(self, cycle: Cycle, rows: Which) -> list[Refusal]:
        """Why `filter` refuses these rows: every refused row is in at least one refusal."""
        ...


class PostFilterPlugin(Plugin):
    @abstractmethod
    def post_filter(self, cycle: Cycle, refused: Mapping[str, Sequence[Refusal]]) -> tuple[Verdict, str]:
        """No node passed. SUCCESS and a node: the pod is nominated to the node, room that becomes free there is kept
        for it, and it is requeued by events like any other. SUCCESS and "": something else was done. UNSCHEDULABLE
        leaves it to the next plugin; UNRESOLVABLE says that no plugin can help."""
        ...


class ScorePlugin(Plugin):
    reach: ClassVar[Reach] = Reach.ROW

    def pre_score(self, cycle: Cycle) -> Verdict:
        """SUCCESS, or SKIP if all rows would score the same; kept for the class as in `pre_filter`."""
        return SUCCESS

    @abstractmethod
    def score(self, cycle: Cycle, rows: Which) -> Scores:
        """The raw score of each row; the higher the better, unless `normalize_score` turns it round."""
        ...

    def normalize_score(self, cycle: Cycle, raw: Scores) -> Scores:
        """From raw scores of all feasible rows to 0..BEST. A plugin that does not define it scores in 0..BEST at once.

        The result for a score may depend on it and on the least and greatest of all, not on how often each occurs: rows
        that no plugin tells apart are given once.
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
        """Called after the writes and after every later event: SUCCESS once they have taken effect, WAIT while they may
        still, ERROR if they never will."""
        return SUCCESS


class BindPlugin(Plugin):
    @abstractmethod
    def bind(self, cycle: Cycle, node: str) -> Sequence[Write] | None:
        """The writes that make another component bind the pod to this node, which the binding cycle then waits for.
        None leaves it to the next plugin, and at last to a Binding. A pod that takes a seat is always bound by a
        Binding, which names the seat."""
        ...


class PostBindPlugin(Plugin):
    @abstractmethod
    def post_bind(self, cycle: Cycle, node: str) -> None: ...
