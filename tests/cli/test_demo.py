"""`restow demo`: ends by itself and says what it showed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

from tests.cli.conftest import Run, Start


def test_the_story_is_told_as_json_with_a_picture_or_chapter_by_chapter(
    spawn: Run, start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    """Both at the same time, because a story is mostly waiting."""
    picture = tmp_path / "pictures" / "demo.svg"
    environment["PYTHONIOENCODING"] = "ascii"
    with start("demo") as chapters:
        check_json(spawn("demo", "-o", "json", "--picture", str(picture)))
        check_picture(picture)
        told, trouble = chapters.communicate(timeout=90)
    assert (chapters.returncode, trouble) == (0, "")
    check_chapters(told)


def check_json(done: subprocess.CompletedProcess[str]) -> None:
    """The report and nothing else."""
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["before"]["bigPodsThatFit"] < report["gang"] == report["after"]["runningBigPods"]
    assert 0 < report["moves"] == report["moved"]
    assert report["refusal"].endswith("0/8 nodes are available: 8 Insufficient cpu.")
    assert "Moves" in Path(report["page"]).read_text()


def check_picture(picture: Path) -> None:
    """It asks nothing of the network."""
    text = picture.read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "url(http" not in text


def check_chapters(told: str) -> None:
    """Without a terminal each is printed once, with what letters there are."""
    assert [line[:4] for line in told.splitlines() if line[1:3] == "/7"] == [f"{n}/7 " for n in range(1, 8)]
