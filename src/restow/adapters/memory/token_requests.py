"""POST serviceaccounts/token, and the identity behind such a token: what `kubectl create token` and TokenReviews need.

Tokens look like those of a real API server: three parts with dots between them, of which the second names the service
account. They are not signed: every caller that reaches this server may do everything, and a token only tells one caller
from another.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from restow.adapters.memory import errors, request_bodies
from restow.adapters.memory.listing import existing_object
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State
from restow.adapters.memory.store import encode_json
from restow.model.objects import Document
from restow.model.times import format_time
from restow.ports import Request, Response

AUDIENCE = "https://kubernetes.default.svc"
_GROUP = "authentication.k8s.io"
_KIND = "TokenRequest"
_HEADER = {"alg": "none", "typ": "JWT"}
_SECONDS, _LEAST, _MOST = 3600, 600, 2**32


class _Account(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _About(msgspec.Struct, frozen=True):
    namespace: str
    serviceaccount: _Account


class _Claims(msgspec.Struct, frozen=True):
    """What a token says. `exp` and `iat` are seconds since the epoch."""

    aud: list[str]
    exp: int
    iat: int
    iss: str
    sub: str
    about: _About = msgspec.field(name="kubernetes.io")


def issue_token(state: State, served: ResourceType, request: Request) -> Response:
    """A token for a service account."""
    asked = request_bodies.read_as(request, _GROUP, _KIND)
    metadata, spec = asked["metadata"], asked["spec"]
    _check_named(request, metadata)
    account = existing_object(state.collection(served), served, request)
    if metadata.get("uid") not in (None, "", account.uid):
        why = f"the UID in the token request ({metadata['uid']}) does not match that of the account ({account.uid})"
        raise errors.conflict_error(_KIND, _GROUP, account.name, why)
    if spec.get("boundObjectRef"):
        raise errors.bad_request("the embedded API server issues no tokens that are bound to another object")
    seconds = _token_lifetime(spec)
    audiences, now = spec.get("audiences") or [AUDIENCE], int(state.clock.now())
    namespace = request.namespace or ""
    about = _About(namespace, _Account(account.name, account.uid))
    claims = _Claims(audiences, now + seconds, now, AUDIENCE, _user_name(about), about)
    made = {"name": account.name, "namespace": namespace, "uid": account.uid, "creationTimestamp": state.stamp()}
    status = {"token": _encoded_token(claims), "expirationTimestamp": format_time(claims.exp)}
    answer: Document = {"kind": _KIND, "apiVersion": f"{_GROUP}/v1", "metadata": {**metadata, **made}}
    answer |= {"spec": {**spec, "audiences": audiences, "expirationSeconds": seconds}, "status": status}
    return Response(body=encode_json(answer), code=201)


def _check_named(request: Request, metadata: Document) -> None:
    for field, given, expected in (
        ("name", metadata.get("name"), request.name),
        ("namespace", metadata.get("namespace"), request.namespace),
    ):
        if given and given != expected:
            why = f"must match the service account {field} if specified"
            cause = errors.invalid_value(f"metadata.{field}", given, why)
            raise errors.invalid_object(_GROUP, _KIND, request.name or "", [cause])


def _token_lifetime(spec: Document) -> int:
    seconds: Any = spec.get("expirationSeconds")
    if seconds is None:
        return _SECONDS
    if _LEAST <= seconds <= _MOST:
        return int(seconds)
    limit = "less than 10 minutes" if seconds < _LEAST else "larger than 2^32 seconds"
    cause = errors.invalid_value("spec.expirationSeconds", seconds, f"may not specify a duration {limit}")
    raise errors.invalid_object(_GROUP, _KIND, "", [cause])


def review_token(state: State, token: str) -> Document | None:
    """The status of a TokenReview, for a token that was issued here; None for any other text."""
    claims = _decoded_token(token)
    if claims is None:
        return None
    about = claims.about
    account = state.find("serviceaccounts", about.namespace, about.serviceaccount.name)
    if account is None or account.uid != about.serviceaccount.uid:
        return {"authenticated": False, "user": {}, "error": "the service account of the token is gone"}
    if state.clock.now() >= claims.exp:
        return {"authenticated": False, "user": {}, "error": "the token has expired"}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{about.namespace}", "system:authenticated"]
    user = {"username": claims.sub, "uid": account.uid, "groups": groups}
    return {"authenticated": True, "user": user, "audiences": claims.aud}


def _user_name(about: _About) -> str:
    return f"system:serviceaccount:{about.namespace}:{about.serviceaccount.name}"


def _encoded_token(claims: _Claims) -> str:
    parts = (base64.urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=") for part in (_HEADER, claims))
    return ".".join((*parts, ""))


def _decoded_token(token: str) -> _Claims | None:
    try:
        _, claims, signature = token.split(".")
        decoded = msgspec.json.decode(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)), type=_Claims)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        return None
    return decoded if not signature and decoded.iss == AUDIENCE else None
