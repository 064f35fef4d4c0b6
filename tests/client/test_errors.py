"""Which error of the tree a Status becomes."""

from __future__ import annotations

import types

import pytest

from restow import ports
from restow.client.leader_election import Fenced
from restow.ports import ApiError, Status


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        pytest.param(409, "AlreadyExists", ports.AlreadyExists, id="the reason comes first"),
        pytest.param(409, "", ports.Conflict, id="then the code"),
        pytest.param(404, "Odd", ports.NotFound, id="an unknown reason does not hide the code"),
        pytest.param(410, "Expired", ports.Gone, id="a version that is gone"),
        pytest.param(422, "Invalid", ports.Invalid, id="a wrong request"),
        pytest.param(401, "Unauthorized", ports.Unauthorized, id="stale credentials"),
        pytest.param(429, "", ports.TooManyRequests, id="a busy server"),
        pytest.param(599, "", ports.OutcomeUnknown, id="any other 5xx"),
        pytest.param(418, "", ApiError, id="anything else"),
        pytest.param(403, "Fenced", ports.Forbidden, id="only we say fenced, no server does"),
    ],
)
def test_the_error_of_a_status(code: int, reason: str, error: type[ApiError]) -> None:
    assert type(ApiError.of(Status(code=code, reason=reason))) is error


@pytest.mark.parametrize("parent", [ApiError, Fenced])
def test_errors_defined_elsewhere_change_nothing(parent: type[ApiError]) -> None:
    types.new_class(
        "Teapot",
        (parent,),
        exec_body=lambda body: body.update(reasons=frozenset({"Teapot"}), codes=frozenset({418})),
    )
    assert type(ApiError.of(Status(code=418, reason="Teapot"))) is ApiError
