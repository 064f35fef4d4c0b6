"""How many members of a gang are there.

Goes in: the members of a gang as the API shows them. Comes out: how many there are of each role (Volcano's task), on
nodes and waiting for one. A gated, terminating or failed pod exists, and counts for neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, Self

import msgspec

from restow.model.objects import Pod
from restow.model.pods import is_finished, is_pending, is_terminating

ROLE_ANNOTATION: Final = "volcano.sh/task-spec"


class GangReadiness(msgspec.Struct, frozen=True):
    existing: int
    """Members that exist."""
    placed: Counter[str]
    """By role, the members that are on a node, or have been and succeeded."""
    waiting: Counter[str]
    """By role, the members that could be placed."""

    @classmethod
    def of(cls, members: Iterable[Pod]) -> Self:
        every = list(members)
        placed, waiting = filter(_is_placed, every), filter(_may_be_placed, every)
        return cls(len(every), Counter(map(role_of, placed)), Counter(map(role_of, waiting)))

    def without(self, pod: Pod) -> Self:
        """The readiness once a member has left its node, and the successor made for it waits for one."""
        if not _is_placed(pod):
            return self
        role = Counter([role_of(pod)])
        return msgspec.structs.replace(self, placed=self.placed - role, waiting=self.waiting + role)


def role_of(pod: Pod) -> str:
    return (pod.metadata.annotations or {}).get(ROLE_ANNOTATION, "")


def _is_placed(pod: Pod) -> bool:
    stays = bool(pod.spec.node_name) and not is_finished(pod) and not is_terminating(pod)
    return stays or pod.status.phase == "Succeeded"


def _may_be_placed(pod: Pod) -> bool:
    return is_pending(pod) and not pod.spec.scheduling_gates
