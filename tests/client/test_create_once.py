"""create_once: an object is created exactly once, also if the answer to the first try is lost."""

from __future__ import annotations

from typing import Any

import pytest

from restow.client.create_once import MAX_TRIES, create_once
from restow.client.verbs import Client
from restow.model.kinds import POD
from restow.ports import AlreadyExists, ApiError, Forbidden, NotFound, OutcomeUnknown, TooManyRequests
from restow.sim.loop import run_virtual
from tests.client.scripted_api import Answer, ScriptedApi, pod

MADE = pod("web", 7)
LOST = OutcomeUnknown.because(504, "Timeout", "lost in the net")
THERE = AlreadyExists.because(409, "AlreadyExists", "it is there")
GONE = NotFound.because(404, "NotFound", "it is not")
BUSY = TooManyRequests.because(429, "TooManyRequests", "not now")
NO = Forbidden.because(403, "Forbidden", "no")

CREATED: list[tuple[str, list[Answer], dict[str, Any], str]] = [
    ("created at the first try", [MADE], {}, "create"),
    ("an existing object is adopted", [THERE, MADE], {}, "create get"),
    ("answer lost, object created", [LOST, THERE, MADE], {}, "create create get"),
    ("answer lost, object not created", [LOST, MADE], {}, "create create"),
    ("existing object deleted before it is read", [THERE, GONE, MADE], {}, "create get create"),
    ("existing object cannot be read at first", [THERE, LOST, THERE, MADE], {}, "create get create get"),
    (
        "429 while the outcome is unknown is retried",
        [LOST, BUSY, THERE, MADE],
        {"tries": None},
        "create create create get",
    ),
    ("object found after a lost answer is adopted", [LOST, THERE, MADE], {"adopt": False}, "create create get"),
    ("retried without limit", [*[LOST] * 9, MADE], {"tries": None}, " ".join(["create"] * 10)),
]

FAILED: list[tuple[str, list[Answer], dict[str, Any], ApiError]] = [
    ("outcome unknown at every try", [LOST] * MAX_TRIES, {}, LOST),
    ("object exists and is gone at every try", [THERE, GONE] * MAX_TRIES, {}, THERE),
    ("outcome unknown, then 429", [LOST, BUSY, BUSY], {}, LOST),
    ("existing object is not adopted", [THERE], {"adopt": False}, THERE),
    ("forbidden", [NO], {}, NO),
    ("no such namespace", [GONE], {}, GONE),
    ("429 at the first try", [BUSY], {}, BUSY),
]


def create(answers: list[Answer], options: dict[str, Any]) -> str:
    """The verbs of the requests until the pod existed."""
    api = ScriptedApi(*answers)
    created = run_virtual(create_once(Client(api), POD, MADE, **options))
    assert created.metadata.uid == MADE["metadata"]["uid"]
    return " ".join(request.verb for request in api.requests)


@pytest.mark.parametrize(
    ("answers", "options", "verbs"), [case[1:] for case in CREATED], ids=[case[0] for case in CREATED]
)
def test_object_exists_exactly_once(answers: list[Answer], options: dict[str, object], verbs: str) -> None:
    assert create(answers, options) == verbs


@pytest.mark.parametrize(
    ("answers", "options", "error"), [case[1:] for case in FAILED], ids=[case[0] for case in FAILED]
)
def test_create_fails(answers: list[Answer], options: dict[str, object], error: ApiError) -> None:
    with pytest.raises(type(error), match=str(error)):
        create(answers, options)
