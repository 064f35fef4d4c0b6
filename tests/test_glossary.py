"""docs/glossary.md: every module and class in it exists, and every module that decides something has a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "restow"
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
COMPLETE_PACKAGES = (
    "eviction",
    "migration",
    "model/reservations",
    "planning",
    "queues",
    "scheduling",
    "scheduling/queue",
    "scheduling/ranking",
)


class Row(NamedTuple):
    term: str
    meaning: str
    upstream: str
    where: str


def rows_of(section: str) -> list[Row]:
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "|" in line]
    return [Row(*row) for row in cells[2:]]


SECTIONS = {part.split("\n", 1)[0]: rows_of(part) for part in PAGE.split("\n## ")[1:]}
ROWS = [row for rows in SECTIONS.values() for row in rows]


def missing_places(where: str) -> Iterator[str]:
    """The modules and classes in the last column of a row that do not exist; none is wrong, too."""
    places = re.findall(r"`([\w/]+(?:\.py|/))`(?: `(\w+)`)?", where)
    if not places:
        yield f"no place in {where!r}"
    for path, name in places:
        module = SOURCES / path
        if not module.exists():
            yield path
        elif name and not re.search(
            rf"^(class {name}\b|{name} *[:=])", module.read_text(encoding="utf-8"), re.MULTILINE
        ):
            yield f"{path} {name}"


def test_glossary_begins_with_the_words_that_upstream_does_not_have() -> None:
    assert [row.term for row in next(iter(SECTIONS.values()))] == ["gang", "move", "plan", "seat", "wave"]


def test_modules_and_classes_of_the_glossary_exist() -> None:
    assert {row.term: missing for row in ROWS if (missing := list(missing_places(row.where)))} == {}


def test_terms_are_unique() -> None:
    terms = [row.term for row in ROWS]
    assert sorted({term for term in terms if terms.count(term) > 1}) == []


@pytest.mark.parametrize("section", SECTIONS)
def test_terms_of_a_section_are_sorted(section: str) -> None:
    terms = [row.term for row in SECTIONS[section]]
    assert terms == sorted(terms, key=str.casefold)


@pytest.mark.parametrize("package", COMPLETE_PACKAGES)
def test_every_module_of_a_domain_package_has_a_row(package: str) -> None:
    modules = {f"{package}/{path.name}" for path in (SOURCES / package).glob("*.py") if path.name != "__init__.py"}
    assert sorted(module for module in modules if f"`{module}`" not in PAGE) == []


@pytest.mark.parametrize("where", ["`model/nowhere.py`", "`scheduling/engine.py` `Motor`", "the engine"])
def test_place_that_does_not_exist_is_found(where: str) -> None:
    assert list(missing_places(where))
