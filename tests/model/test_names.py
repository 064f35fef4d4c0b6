"""Names, label keys and label values."""

from __future__ import annotations

import pytest

from restow.model.names import (
    dns_label_problems,
    label_value_problems,
    name_stem,
    qualified_name_problems,
    short_digest,
    subdomain_problems,
)


@pytest.mark.parametrize("name", ["a", "A.b_c-d", "x.io/a", "a" * 63, f"{'a' * 63}.b/c", "1"])
def test_good_label_keys_are_accepted(name: str) -> None:
    assert qualified_name_problems(name) == ()


@pytest.mark.parametrize(
    "name", ["", "/", "a/", "/a", "a/b/c", "-a", "a-", "a" * 64, "X.io/a", f"{'a.' * 127}/b", "a b"]
)
def test_bad_label_keys_are_refused(name: str) -> None:
    assert qualified_name_problems(name)


@pytest.mark.parametrize(
    ("value", "good"), [("", True), ("a.b_c-D", True), ("a" * 64, False), ("-", False), ("ä", False)]
)
def test_label_values_are_checked(value: str, good: bool) -> None:
    assert (label_value_problems(value) == ()) is good


@pytest.mark.parametrize(("name", "good"), [("web-0", True), ("a.b", True), ("A", False), ("a..b", False), ("", False)])
def test_object_names_are_checked(name: str, good: bool) -> None:
    assert (subdomain_problems(name) == ()) is good


@pytest.mark.parametrize(("name", "good"), [("web-0", True), ("a.b", False), ("a" * 64, False), ("-a", False)])
def test_namespace_names_are_checked(name: str, good: bool) -> None:
    assert (dns_label_problems(name) == ()) is good


@pytest.mark.parametrize(
    ("title", "name"),
    [
        pytest.param("pack", "pack", id="a word"),
        pytest.param("Pack, nightly!", "pack-nightly", id="a sentence"),
        pytest.param("x" * 39 + " and more", "x" * 39, id="too long, and cut where a word begins"),
        pytest.param("…", "plan", id="nothing that a name may have"),
    ],
)
def test_generated_name_begins_with_its_title(title: str, name: str) -> None:
    assert name_stem(title, "plan") == name
    assert not dns_label_problems(f"{name}-{short_digest(title)}")
