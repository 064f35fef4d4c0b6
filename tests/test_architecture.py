"""docs/architecture.md: every module and function that its walks name exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src" / "restow"
PAGE = (SOURCES.parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
WALKS = re.findall(r"^### (.+?)\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
_PACKAGES = "|".join(sorted(path.stem for path in SOURCES.iterdir() if path.suffix in ("", ".py")))
REFERENCE = re.compile(rf"`((?:{_PACKAGES})(?:\.\w+)+)`")


def resolves(reference: str) -> bool:
    """Whether a dotted path below `restow` names a module, or something that is defined in one."""
    parts = reference.split(".")
    for length in range(len(parts), 0, -1):
        if SOURCES.joinpath(*parts[:length]).with_suffix(".py").exists() or SOURCES.joinpath(*parts[:length]).is_dir():
            named: object = importlib.import_module(".".join(("restow", *parts[:length])))
            for part in parts[length:]:
                named = getattr(named, part, None)
            return named is not None
    return False


def test_walks_are_found_on_the_page() -> None:
    assert [len(REFERENCE.findall(walk)) > 10 for _, walk in WALKS] == [True] * 6


@pytest.mark.parametrize("walk", [walk for _, walk in WALKS], ids=[title for title, _ in WALKS])
def test_functions_of_a_walk_exist(walk: str) -> None:
    assert [reference for reference in REFERENCE.findall(walk) if not resolves(reference)] == []


@pytest.mark.parametrize("walk", [walk for _, walk in WALKS], ids=[title for title, _ in WALKS])
def test_short_names_of_a_walk_are_defined_in_the_sources(walk: str) -> None:
    """Names such as `_may_send`, which follow a function of the same class."""
    sources = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    names = set(re.findall(r"`(_?[a-z]\w*_\w+|[A-Z]\w+)`", walk))
    defined = set(re.findall(r"(?:def|class) (\w+)", sources))
    assert sorted(names - defined) == []


def test_reference_to_a_missing_function_does_not_resolve() -> None:
    assert resolves("scheduling.engine.Engine.find_node")
    assert not resolves("scheduling.engine.Engine.place_nowhere")
    assert not resolves("scheduling.no_such_module.place")
