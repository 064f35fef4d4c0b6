"""The refusals documents give: `ports.Invalid` with the code, reason and wording an API server uses."""

from __future__ import annotations

from collections.abc import Sequence

from restow.ports import Invalid, StatusCause, StatusDetails


def bad_request(message: str) -> Invalid:
    """400: the request cannot be read."""
    return Invalid.because(400, "BadRequest", message)


def unprocessable_entity(message: str) -> Invalid:
    """422: the request can be read, but it cannot be carried out on this document."""
    text = f"the server rejected our request due to an error in our request: {message}"
    cause = StatusCause(reason="UnexpectedServerResponse", message=message)
    return Invalid.because(422, "Invalid", text, StatusDetails(causes=[cause]))


def invalid_object(group: str, kind: str, name: str, causes: Sequence[StatusCause]) -> Invalid:
    """422 with every wrong field; the message lists them all, in brackets when there are several."""
    listed = [f"{cause.field}: {cause.message}" if cause.field else str(cause.message) for cause in causes]
    text = listed[0] if len(listed) == 1 else "[" + ", ".join(listed) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details = StatusDetails(name=name or None, group=group or None, kind=kind, causes=list(causes))
    return Invalid.because(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details)
