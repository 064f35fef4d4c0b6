"""`restow demo`: ends by itself and reports its figures."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

from tests.cli.conftest import Run, Start


def test_json_report_with_picture_and_text_chapter_by_chapter(
    spawn: Run, start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    """Both at the same time, because the demo mostly waits."""
    picture = tmp_path / "pictures" / "demo.svg"
    environment["PYTHONIOENCODING"] = "ascii"
    with start("demo") as chapters:
        check_json(spawn("demo", "-o", "json", "--picture", str(picture)))
        check_picture(picture)
        stdout, stderr = chapters.communicate(timeout=90)
    assert (chapters.returncode, stderr) == (0, "")
    check_chapters(stdout)


def check_json(done: subprocess.CompletedProcess[str]) -> None:
    """The report and nothing else."""
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["before"]["bigPodsThatFit"] < report["gang"] == report["after"]["runningBigPods"]
    assert 0 < report["moves"] == report["moved"]
    assert report["refusal"].endswith("0/8 nodes are available: 8 Insufficient cpu.")
    assert "Moves" in Path(report["page"]).read_text()


def check_picture(picture: Path) -> None:
    """The SVG is valid and loads nothing from the network."""
    text = picture.read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "url(http" not in text


def check_chapters(text: str) -> None:
    """Without a terminal each chapter is printed once, with ASCII characters."""
    assert [line[:4] for line in text.splitlines() if line[1:3] == "/7"] == [f"{n}/7 " for n in range(1, 8)]
