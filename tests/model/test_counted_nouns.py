"""Numbers of things, as people write them."""

from __future__ import annotations

import pytest

from restow.model.counted_nouns import counted_noun


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((0, "pod"), "0 pods"),
        ((1, "pod"), "1 pod"),
        ((2, "pod"), "2 pods"),
        ((12_345, "node"), "12,345 nodes"),
        ((1, "pod", "are"), "1 pod is"),
        ((3, "pod", "are"), "3 pods are"),
        ((1, "pod", "were"), "1 pod was"),
        ((1, "job", "have"), "1 job has"),
        ((1, "node", "stay"), "1 node stays"),
        ((0, "node", "stay"), "0 nodes stay"),
    ],
)
def test_counted_nouns_have_singular_and_plural(given: tuple[int, str], text: str) -> None:
    assert counted_noun(*given) == text
