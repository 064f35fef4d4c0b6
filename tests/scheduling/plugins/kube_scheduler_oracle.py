"""The answers of kube-scheduler's own plugins: a Go program is built from its sources, run, and its answers are kept.

Goes in: the folder of the program, and questions. Comes out: the questions with its answers, and how many of ours
differ. Needs Go and what `make e2e` downloads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from restow.model.objects import Document

MODULE = Path(__file__).parents[3] / "e2e" / "controlplane"
"""Pins the versions of everything that is built from Kubernetes' sources."""
GOLDEN = "kube-scheduler.json"


def answered(folder: Path, questions: Iterable[Document]) -> list[Document]:
    """The questions with kube-scheduler's answers."""
    asked = list(questions)
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(folder / "oracle.go", Path(scratch) / "main.go")
        for name in ("go.mod", "go.sum"):
            shutil.copy(MODULE / name, scratch)
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
        subprocess.run(["go", "build", "-trimpath", "-o", "oracle", "."], cwd=scratch, env=environment, check=True)
        lines = "".join(json.dumps(question) + "\n" for question in asked)
        run = subprocess.run([f"{scratch}/oracle"], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    return [{**question, "answer": answer} for question, answer in zip(asked, answers, strict=True)]


def keep(folder: Path, cases: Iterable[Document]) -> None:
    """Write the answers down, a line for each."""
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (folder / GOLDEN).write_text(f"[\n{lines}\n]\n")


def compare(cases: Iterable[Document], differences: Callable[[Document], list[str]]) -> int:
    """Say how many of our answers differ, with examples; the exit code."""
    found = [(case, differences(case)) for case in cases]
    wrong = [(case, lines) for case, lines in found if lines]
    for case, lines in wrong[:3]:
        print(json.dumps(case), *lines, sep="\n  ")
    print(f"{len(found)} answers, {len(wrong)} of ours differ")
    return 1 if wrong else 0
