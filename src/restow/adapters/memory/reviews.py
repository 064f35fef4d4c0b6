"""Reviews: questions posted to the server, answered in their status. Nothing is stored, everything is allowed."""

from __future__ import annotations

from restow.adapters.memory import bodies
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State
from restow.adapters.memory.store import Document, encode
from restow.ports import Request, Response

USER = "restow"
_GROUPS = ["system:masters", "system:authenticated"]
_EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_ANSWERS: dict[str, Document] = {
    "SelfSubjectAccessReview": {"allowed": True},
    "SubjectAccessReview": {"allowed": True},
    "LocalSubjectAccessReview": {"allowed": True},
    "SelfSubjectRulesReview": {
        "resourceRules": [_EVERYTHING],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    },
    "SelfSubjectReview": {"userInfo": {"username": USER, "groups": _GROUPS}},
    "TokenReview": {"authenticated": True, "user": {"username": USER, "groups": _GROUPS}},
}


def is_review(served: ResourceType) -> bool:
    return served.kind in _ANSWERS


def review(state: State, served: ResourceType, request: Request) -> Response:
    document = bodies.read_object(served, request)
    document["metadata"].setdefault("creationTimestamp", None)
    return Response(body=encode({**document, "status": _ANSWERS[served.kind]}), code=201)
