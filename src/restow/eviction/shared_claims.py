"""Shared claims: which pods of a node use the same PersistentVolumeClaims.

Goes in: pods, as the API shows them, in any order. Comes out: for a pod, the other pods on its node that use the same
claims. A ReadWriteOnce volume stays attached to the node while one of them is there, so a successor on another node
would wait for it for ever.
"""

from __future__ import annotations

from restow.model.objects import Pod
from restow.model.pods import is_finished, is_terminating
from restow.model.volumes import claims_used

_ClaimUse = tuple[str, str, str]
"""The namespace and name of a claim, and the node that it is used on."""


class SharedClaims:
    """Kept up to date event by event."""

    def __init__(self) -> None:
        self._users: dict[_ClaimUse, dict[str, Pod]] = {}
        self._uses: dict[str, list[_ClaimUse]] = {}

    def put_pod(self, pod: Pod) -> None:
        """A pod as it is now; a finished or terminating pod no longer uses its claims."""
        self.drop_pod(pod.metadata.uid)
        uses = [] if is_finished(pod) or is_terminating(pod) else _claim_uses(pod)
        if uses:
            self._uses[pod.metadata.uid] = uses
        for use in uses:
            self._users.setdefault(use, {})[pod.metadata.uid] = pod

    def drop_pod(self, uid: str) -> None:
        for use in self._uses.pop(uid, ()):
            users = self._users[use]
            users.pop(uid, None)
            if not users:
                del self._users[use]

    def shared_with(self, pod: Pod) -> dict[str, str]:
        """The claims that another pod on its node uses as well, by name; each with the first of those pods, by name."""
        other_users: dict[str, str] = {}
        for use in _claim_uses(pod):
            users = self._users.get(use, {}).items()
            others = sorted(user.metadata.name for uid, user in users if uid != pod.metadata.uid)
            if others:
                other_users[use[1]] = others[0]
        return other_users


def _claim_uses(pod: Pod) -> list[_ClaimUse]:
    node, namespace = pod.spec.node_name, pod.metadata.namespace or ""
    return [(namespace, claim.name, node) for claim in claims_used(pod)] if node else []
