"""Docs: what they link to is there, and so are the commands, options, targets and examples that they speak of."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import pytest

from restow.cli import restow
from restow.model.objects import JobReason
from restow.model.reservations.seat_fault import FaultReason
from restow.model.reservations.status import Reason

ROOT = Path(__file__).parent.parent
PAGES = sorted(page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[;|] *)(?:\.venv/bin/)?restow +([a-z]+)([^;|#\n]*)", re.MULTILINE)


def commands(page: Path) -> list[tuple[str, list[str]]]:
    """The commands in the blocks of a page: their names, and the options they are given."""
    text = re.sub(r"\$\([^)]*\)", "", "\n".join(BLOCK.findall(page.read_text(encoding="utf-8"))))
    return [(name, re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rest)) for name, rest in COMMAND.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    unknown = []
    for name, options in commands(page):
        command = restow.commands.get(name)
        known = (
            {option for each in command.params for option in (*each.opts, *each.secondary_opts)} if command else set()
        )
        unknown += [f"restow {name}"] if command is None else []
        unknown += [f"restow {name} {option}" for option in options if option not in known]
    assert unknown == []


def test_documented_commands_exist() -> None:
    assert {"plan", "apply", "explain", "run", "install"} <= {name for name, _ in commands(ROOT / "README.md")}


def test_every_command_has_a_row_in_the_docs() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [name for name in restow.commands if not re.search(rf"^\| [^|]*`{name}\b", page, re.MULTILINE)] == []


@pytest.mark.parametrize(
    ("page", "reasons"), [("migration.md", JobReason), ("reservations.md", Reason), ("reservations.md", FaultReason)]
)
def test_every_condition_reason_is_explained_in_the_docs(page: str, reasons: type[StrEnum]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert [reason for reason in reasons if f"`{reason}`" not in text] == []


def test_targets_and_examples_that_the_readme_names_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefiles = "".join((ROOT / name).read_text() for name in ("Makefile", "e2e/targets.mk"))
    assert [
        target for target in re.findall(r"^make (\w+)", text, re.MULTILINE) if f"\n{target}:" not in makefiles
    ] == []
    assert [example for example in re.findall(r"examples/[\w./-]+", text) if not (ROOT / example).exists()] == []


def test_lines_of_make_itself_are_not_counted_as_output() -> None:
    """The first line of `make dev` is the path of the kubeconfig, also when everything is set up first."""
    echoed = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("\t@echo")]
    assert [line for line in echoed if not line.endswith(">&2")] == []
