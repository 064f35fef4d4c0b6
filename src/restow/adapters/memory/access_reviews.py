"""Access and token reviews: posted to the server and answered in their status.

Nothing is stored, everything is allowed, and a token that was not issued here counts as the administrator's.
"""

from __future__ import annotations

from restow.adapters.memory import request_bodies, token_requests
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State
from restow.adapters.memory.store import encode_json
from restow.model.objects import Document
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


def answer_review(state: State, served: ResourceType, request: Request) -> Response:
    document = request_bodies.read_object(served, request)
    document["metadata"].setdefault("creationTimestamp", None)
    status = _of_token(state, document) if served.kind == "TokenReview" else None
    return Response(body=encode_json({**document, "status": status or _ANSWERS[served.kind]}), code=201)


def _of_token(state: State, document: Document) -> Document | None:
    """The status of a TokenReview, if the token was issued here."""
    spec = document.get("spec")
    token = spec.get("token") if isinstance(spec, dict) else None
    return token_requests.review_token(state, token) if isinstance(token, str) else None
