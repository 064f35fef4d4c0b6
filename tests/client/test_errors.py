"""ApiError.of: the error class for a Status."""

from __future__ import annotations

import types

import pytest

from restow import ports
from restow.client.fenced_api import Fenced
from restow.ports import ApiError, Status


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        pytest.param(409, "AlreadyExists", ports.AlreadyExists, id="reason before code"),
        pytest.param(409, "", ports.Conflict, id="code without reason"),
        pytest.param(404, "Odd", ports.NotFound, id="code with an unknown reason"),
        pytest.param(410, "Expired", ports.Gone, id="a version that is gone"),
        pytest.param(422, "Invalid", ports.Invalid, id="a wrong request"),
        pytest.param(401, "Unauthorized", ports.Unauthorized, id="stale credentials"),
        pytest.param(429, "", ports.TooManyRequests, id="a busy server"),
        pytest.param(599, "", ports.OutcomeUnknown, id="any other 5xx"),
        pytest.param(418, "", ApiError, id="anything else"),
        pytest.param(403, "Fenced", ports.Forbidden, id="Fenced is never an answer of a server"),
    ],
)
def test_status_becomes_the_error(code: int, reason: str, error: type[ApiError]) -> None:
    assert type(ApiError.of(Status(code=code, reason=reason))) is error


@pytest.mark.parametrize("parent", [ApiError, Fenced])
def test_subclass_elsewhere_does_not_change_the_mapping(parent: type[ApiError]) -> None:
    types.new_class(
        "Teapot",
        (parent,),
        exec_body=lambda body: body.update(reasons=frozenset({"Teapot"}), codes=frozenset({418})),
    )
    assert type(ApiError.of(Status(code=418, reason="Teapot"))) is ApiError
