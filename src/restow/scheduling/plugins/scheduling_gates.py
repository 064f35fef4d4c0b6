"""SchedulingGates: a pod is not tried before all its gates are lifted."""

from __future__ import annotations

from typing import ClassVar

from restow.model.objects import Pod
from restow.scheduling.framework import SUCCESS, PreEnqueuePlugin, Verdict, unresolvable


class SchedulingGates(PreEnqueuePlugin):
    name: ClassVar[str] = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Verdict:
        gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else SUCCESS
