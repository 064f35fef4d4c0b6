"""Whoever creates something twice has it once, also if nobody says whether the first time took effect."""

from __future__ import annotations

from typing import Any

import pytest

from restow.client.create_once import TRIES, create_once
from restow.client.verbs import Client
from restow.model.kinds import POD
from restow.ports import AlreadyExists, ApiError, Forbidden, NotFound, OutcomeUnknown, TooManyRequests
from restow.sim.loop import run_virtual
from tests.client.script import Answer, ScriptedApi, pod

MADE = pod("web", 7)
LOST = OutcomeUnknown.because(504, "Timeout", "lost in the net")
THERE = AlreadyExists.because(409, "AlreadyExists", "it is there")
GONE = NotFound.because(404, "NotFound", "it is not")
BUSY = TooManyRequests.because(429, "TooManyRequests", "not now")
NO = Forbidden.because(403, "Forbidden", "no")

FOUND: list[tuple[str, list[Answer], dict[str, Any], str]] = [
    ("it is made at once", [MADE], {}, "create"),
    ("what was there before is the same", [THERE, MADE], {}, "create get"),
    ("an answer is lost, and it was made", [LOST, THERE, MADE], {}, "create create get"),
    ("an answer is lost, and it was not made", [LOST, MADE], {}, "create create"),
    ("what goes before it is read is made again", [THERE, GONE, MADE], {}, "create get create"),
    ("what cannot be read is looked for again", [THERE, LOST, THERE, MADE], {}, "create get create get"),
    ("who is in doubt is not sent away", [LOST, BUSY, THERE, MADE], {"tries": None}, "create create create get"),
    ("what comes after a lost answer is adopted", [LOST, THERE, MADE], {"adopt": False}, "create create get"),
    ("it goes on until it is known", [*[LOST] * 9, MADE], {"tries": None}, " ".join(["create"] * 10)),
]

RAISED: list[tuple[str, list[Answer], dict[str, Any], ApiError]] = [
    ("nothing was known to the end", [LOST] * TRIES, {}, LOST),
    ("it came and went to the end", [THERE, GONE] * TRIES, {}, THERE),
    ("in doubt to the end, whatever was said last", [LOST, BUSY, BUSY], {}, LOST),
    ("what was there before is another's", [THERE], {"adopt": False}, THERE),
    ("it is refused", [NO], {}, NO),
    ("there is no such namespace", [GONE], {}, GONE),
    ("nothing was written, says the server", [BUSY], {}, BUSY),
]


def create(answers: list[Answer], options: dict[str, Any]) -> str:
    """What was asked for until the pod was there."""
    api = ScriptedApi(*answers)
    made = run_virtual(create_once(Client(api), POD, MADE, **options))
    assert made.metadata.uid == MADE["metadata"]["uid"]
    return " ".join(request.verb for request in api.requests)


@pytest.mark.parametrize(("answers", "options", "asked"), [case[1:] for case in FOUND], ids=[case[0] for case in FOUND])
def test_it_is_there_once(answers: list[Answer], options: dict[str, object], asked: str) -> None:
    assert create(answers, options) == asked


@pytest.mark.parametrize(
    ("answers", "options", "error"), [case[1:] for case in RAISED], ids=[case[0] for case in RAISED]
)
def test_it_is_not_there(answers: list[Answer], options: dict[str, object], error: ApiError) -> None:
    with pytest.raises(type(error), match=str(error)):
        create(answers, options)
