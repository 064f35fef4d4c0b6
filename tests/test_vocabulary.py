"""One vocabulary: words that were retired do not come back, in names, prose, messages or docs.

`retired_vocabulary.toml` lists them, each with the word to use instead. Three tables are about names: `identifiers` are
parts of a name (`crowd` in `pods_of_crowd` or `CrowdIndex`), `names` are whole names (`News`), `modules` are modules of
`restow` by their path. The table `prose` is about docstrings, comments, string literals and docs. A word that is
retired in a part of the tree only names its packages: `claim = {use = "...", in = ["planning"]}`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ("src", "tests", "e2e", "bench", "examples")
MAX_WHO_SHARE = 0.05
WHO = re.compile(
    r"\b(who|whoever|whom|whose|whosoever|nobody|somebody|anybody|everybody|someone|anyone|no one|no-one)\b", re.I
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CODE = re.compile(r"`([^`\n]+)`")
_HERE = Path(__file__).name


class Retired(NamedTuple):
    use: str
    packages: tuple[str, ...] = ()

    def applies_to(self, package: str) -> bool:
        return not self.packages or package.startswith(self.packages)


class Finding(NamedTuple):
    place: str
    word: str
    use: str

    def __str__(self) -> str:
        return f"{self.place}: {self.word!r} is retired: {self.use}"


@cache
def retired(table: str) -> Mapping[str, Retired]:
    listed: dict[str, Any] = tomllib.loads(Path(__file__).with_name("retired_vocabulary.toml").read_text())[table]
    return {
        word: Retired(entry) if isinstance(entry, str) else Retired(entry["use"], tuple(entry["in"]))
        for word, entry in listed.items()
    }


# --- finding ----------------------------------------------------------------------------------------------------------


def package_of(path: Path) -> str:
    """The package of a module below restow (`control/scheduler`), or the folder of a test that mirrors it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "/".join(parts[2:] if parts[:2] == ("src", "restow") else parts[1:])


def parts_of(name: str) -> Iterator[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return (part.lower() for part in _PART.findall(name))


def identifier(part: str) -> Retired | None:
    words = retired("identifiers")
    return words.get(part) or words.get(part.removesuffix("s"))


def in_name(name: str, package: str) -> Iterator[tuple[str, str]]:
    """(word, use instead) of every retired word in a name."""
    whole = retired("names").get(name)
    if whole is not None and whole.applies_to(package):
        yield name, whole.use
    for part in parts_of(name):
        entry = identifier(part)
        if entry is not None and entry.applies_to(package):
            yield part, entry.use


@cache
def prose_pattern() -> re.Pattern[str]:
    words = sorted(retired("prose"), key=len, reverse=True)
    return re.compile(rf"\b({'|'.join(map(re.escape, words))})(?:'s|s)?\b", re.I)


def in_prose(text: str, package: str) -> Iterator[tuple[int, str, str]]:
    """(line, word, use instead) of every retired word in a text."""
    for match in prose_pattern().finditer(text):
        entry = retired("prose")[match[1].lower()]
        if entry.applies_to(package):
            yield text.count("\n", 0, match.start()), match[0], entry.use


def in_docs(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, word, use instead) of retired words in the text of a page, in the names that it quotes, and of modules."""
    yield from in_prose(text, "docs")
    for quoted in _CODE.finditer(text):
        line = text.count("\n", 0, quoted.start())
        for part in parts_of(quoted[1]):
            entry = identifier(part)
            if entry is not None and entry.applies_to("docs"):
                yield line, part, entry.use
        for path, entry in retired("modules").items():
            if "/" in path and path in quoted[1]:
                yield line, path, entry.use


def python_files() -> Iterator[Path]:
    for folder in SOURCES:
        yield from sorted(path for path in (ROOT / folder).rglob("*.py") if path.name != _HERE)


def docs() -> Iterator[Path]:
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md")


def tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(io.StringIO(text).readline)


def names_in(path: Path, text: str) -> Iterator[Finding]:
    package, place = package_of(path), path.relative_to(ROOT)
    for word, use in in_name(path.stem.removeprefix("test_"), package):
        yield Finding(str(place), word, use)
    suspects = {word for word in _WORD.findall(text) if any(in_name(word, package))}
    for token in tokens(text) if suspects else ():
        if token.type == tokenize.NAME and token.string in suspects:
            for word, use in in_name(token.string, package):
                yield Finding(f"{place}:{token.start[0]}", word, use)


def prose_in(path: Path, text: str) -> Iterator[Finding]:
    """Retired words in comments, docstrings and other string literals."""
    package, place = package_of(path), path.relative_to(ROOT)
    for token in tokens(text) if any(in_prose(text, package)) else ():
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for line, word, use in in_prose(token.string, package):
                yield Finding(f"{place}:{token.start[0] + line}", word, use)


def report(findings: Iterable[Finding]) -> str:
    listed = [str(finding) for finding in findings]
    return f"{len(listed)} retired words:\n" + "\n".join(listed[:100])


# --- the tree ---------------------------------------------------------------------------------------------------------


def test_names_and_modules_use_the_vocabulary() -> None:
    findings = [finding for path in python_files() for finding in names_in(path, path.read_text())]
    for path, entry in retired("modules").items():
        if (ROOT / "src/restow" / path).exists():
            findings.append(Finding(f"src/restow/{path}", path, entry.use))
    assert not findings, report(findings)


def test_docstrings_comments_and_messages_use_the_vocabulary() -> None:
    paths = (path for path in python_files() if path.is_relative_to(ROOT / "src"))
    findings = [finding for path in paths for finding in prose_in(path, path.read_text())]
    assert not findings, report(findings)


def test_docs_use_the_vocabulary() -> None:
    findings = [
        Finding(f"{path.relative_to(ROOT)}:{line + 1}", word, use)
        for path in docs()
        if path.name != "glossary.md"
        for line, word, use in in_docs(path.read_text())
    ]
    assert not findings, report(findings)


def docstrings(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring


def test_few_docstrings_of_a_package_speak_of_who_or_whom() -> None:
    counts: dict[str, list[bool]] = defaultdict(list)
    for path in (ROOT / "src/restow").rglob("*.py"):
        parts = path.relative_to(ROOT / "src/restow").parts
        package = "/".join(parts[:2]) if len(parts) > 2 else parts[0] if len(parts) > 1 else "restow"
        counts[package] += [WHO.search(docstring) is not None for docstring in docstrings(path.read_text())]
    shares = {package: sum(speak) / len(speak) for package, speak in sorted(counts.items()) if speak}
    assert {package: f"{share:.0%}" for package, share in shares.items() if share > MAX_WHO_SHARE} == {}


# --- the check itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["crowd", "pods_of_crowds", "CrowdIndex", "_MUSTERS", "kinship_of"], ids=lambda name: f"planted {name}"
)
def test_retired_word_in_a_name_is_found(name: str) -> None:
    planted = names_in(ROOT / "src/restow/model/planted.py", f"{name} = 1\n")
    assert [finding.place for finding in planted] == ["src/restow/model/planted.py:1"]


@pytest.mark.parametrize(
    "line", ["# whoever comes first", 'raise ValueError("nobody asked")', '"""Somebody else\'s pods."""']
)
def test_retired_word_in_prose_is_found(line: str) -> None:
    [found] = prose_in(ROOT / "src/restow/model/planted.py", f"x = 1\n{line}\n")
    assert found.place == "src/restow/model/planted.py:2"


@pytest.mark.parametrize(
    "line",
    ["Whoever asks waits.", "See `CrowdIndex`.", "It is in `scheduling/wakeups.py`."],
    ids=["prose", "quoted name", "module"],
)
def test_retired_word_on_a_page_is_found(line: str) -> None:
    assert [number for number, _, _ in in_docs(f"# Title\n{line}\n")] == [1]


def test_word_that_is_retired_in_some_packages_is_allowed_elsewhere() -> None:
    assert list(in_name("claim", "model/volumes")) == []
    assert [word for word, _ in in_name("claim", "planning/places")] == ["claim"]


def test_every_retired_word_says_what_to_use() -> None:
    tables = ("identifiers", "names", "modules", "prose")
    assert [word for table in tables for word, entry in retired(table).items() if not entry.use] == []
