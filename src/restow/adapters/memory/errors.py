"""The refusals of the API server, in the words of kube-apiserver, so that tools that match on them keep working."""

from __future__ import annotations

import json
from collections.abc import Sequence

from restow.adapters.memory.documents.field_errors import (
    forbidden_value,
    invalid_value,
    required_value,
    unsupported_value,
)
from restow.adapters.memory.documents.request_errors import bad_request, invalid_object
from restow.ports import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Status,
    StatusCause,
    StatusDetails,
)

__all__ = [
    "bad_request",
    "forbidden_value",
    "invalid_object",
    "invalid_value",
    "required_value",
    "unsupported_value",
]


def qualified_name(word: str, group: str) -> str:
    """A plural or kind with its group, as messages name it: `pods`, `deployments.apps`."""
    return f"{word}.{group}" if group else word


def unknown_resource() -> ApiError:
    return NotFound.because(404, "NotFound", "the server could not find the requested resource", StatusDetails())


def not_found(plural: str, group: str, name: str) -> ApiError:
    details = StatusDetails(name=name, group=group or None, kind=plural)
    return NotFound.because(404, "NotFound", f"{qualified_name(plural, group)} {json.dumps(name)} not found", details)


def already_exists(plural: str, group: str, name: str, *, generated: bool = False, deleting: bool = False) -> ApiError:
    message = f"{qualified_name(plural, group)} {json.dumps(name)} already exists"
    if deleting:
        message = f"object is being deleted: {message}"
    if generated:
        message += ", the server was not able to generate a unique name for the object"
    return AlreadyExists.because(
        409, "AlreadyExists", message, StatusDetails(name=name, group=group or None, kind=plural)
    )


def conflict_error(word: str, group: str, name: str, why: str) -> ApiError:
    message = f"Operation cannot be fulfilled on {qualified_name(word, group)} {json.dumps(name)}: {why}"
    return Conflict.because(409, "Conflict", message, StatusDetails(name=name, group=group or None, kind=word))


def modified_error(plural: str, group: str, name: str) -> ApiError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict_error(plural, group, name, why)


def forbidden_error(word: str, group: str, name: str, why: str, causes: Sequence[StatusCause] = ()) -> ApiError:
    details = StatusDetails(name=name, group=group or None, kind=word, causes=list(causes) or None)
    named = f"{qualified_name(word, group)} {json.dumps(name)}" if name else qualified_name(word, group)
    return Forbidden.because(403, "Forbidden", f"{named} is forbidden: {why}", details)


def method_not_allowed(verb: str, plural: str, group: str) -> ApiError:
    message = f"{verb} is not supported on resources of kind {json.dumps(qualified_name(plural, group))}"
    return Invalid.because(405, "MethodNotAllowed", message, StatusDetails(group=group or None, kind=plural))


def unsupported_media(accepted: Sequence[str]) -> ApiError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return Invalid.because(415, "UnsupportedMediaType", message)


def too_large_body(limit: int) -> ApiError:
    return Invalid.because(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def expired_error(message: str, metadata: dict[str, str] | None = None) -> ApiError:
    return Gone(Status(code=410, reason="Expired", message=message, metadata=dict(metadata or {})))


def too_old(version: int, oldest: int) -> ApiError:
    return expired_error(f"too old resource version: {version} ({oldest})")


def too_new(version: int, current: int) -> ApiError:
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return OutcomeUnknown.because(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {version}, current: {current}",
        StatusDetails(causes=[cause], retry_after_seconds=1),
    )


def internal_error(message: str) -> ApiError:
    """A 500 without a reason, which is how kube-apiserver reports errors it has no Status for."""
    return OutcomeUnknown.because(500, "", message)
