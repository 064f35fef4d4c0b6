"""`restow demo`: ends by itself and says what it showed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from tests.cli.conftest import Run


def test_json_is_the_report_and_nothing_else_and_the_picture_asks_nothing_of_the_network(
    run: Run, tmp_path: Path
) -> None:
    picture = tmp_path / "pictures" / "demo.svg"
    done = run("demo", "-o", "json", "--picture", str(picture))
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["before"]["bigPodsThatFit"] < report["gang"] == report["after"]["runningBigPods"]
    assert 0 < report["moves"] == report["moved"]
    assert report["refusal"].endswith("0/8 nodes are available: 8 Insufficient cpu.")
    assert "Moves" in Path(report["page"]).read_text()
    text = picture.read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "url(http" not in text


def test_without_a_terminal_every_chapter_is_printed_once_with_what_letters_there_are(
    run: Run, environment: dict[str, str]
) -> None:
    environment["PYTHONIOENCODING"] = "ascii"
    done = run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line[:4] for line in done.stdout.splitlines() if line[1:3] == "/7"] == [f"{n}/7 " for n in range(1, 8)]
