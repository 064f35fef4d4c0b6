"""The image, as far as it can be told without building it: the Containerfile agrees with the package and with the
Deployment that `restow install` prints."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from restow.cli import main
from restow.defaults import PORT
from restow.running.installing import documents

ROOT = Path(__file__).parents[2]
LINES = [line.split(maxsplit=1) for line in (ROOT / "Containerfile").read_text().splitlines() if line[:1].isalpha()]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def said(instruction: str) -> list[str]:
    return [rest for word, rest in LINES if word == instruction]


def pod() -> dict[str, Any]:
    made = documents(namespace="restow-system", image="registry.example/restow:1")
    [deployment] = [one for one in made if one["kind"] == "Deployment"]
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def test_the_entry_point_is_the_command_of_the_package() -> None:
    [entry], [arguments] = said("ENTRYPOINT"), said("CMD")
    assert PROJECT["scripts"] == {json.loads(entry)[0]: f"{main.__module__}:{main.__name__}"}
    [container] = pod()["containers"]
    assert "command" not in container and container["args"][:1] == json.loads(arguments)


def test_every_argument_of_the_deployment_is_known_to_the_command() -> None:
    from click.testing import CliRunner

    from restow.cli import restow

    [container] = pod()["containers"]
    done = CliRunner().invoke(restow, [*container["args"], "--help"])
    assert done.exit_code == 0, done.output


def test_it_runs_as_nobody_on_the_port_that_is_probed() -> None:
    spec = pod()
    [container] = spec["containers"]
    assert said("USER") == [f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsUser']}"]
    assert said("EXPOSE") == [str(PORT)] == [str(container["ports"][0]["containerPort"])]


def test_its_python_is_pinned_and_new_enough_and_both_stages_have_it() -> None:
    [argument] = said("ARG")
    minor = re.fullmatch(r"PYTHON=3\.(\d+)", argument)
    assert minor is not None and f">=3.{min(int(minor.group(1)), 11)}" == PROJECT["requires-python"]
    assert [one.split(" AS ")[0] for one in said("FROM")] == ["python:${PYTHON}-slim"] * 2


@pytest.mark.parametrize("line", [one for one in said("COPY") if not one.startswith("--from")])
def test_everything_that_is_copied_is_there_and_not_ignored(line: str) -> None:
    allowed = {one[1:] for one in (ROOT / ".containerignore").read_text().splitlines() if one.startswith("!")}
    for name in line.split()[:-1]:
        assert (ROOT / name).exists() and name in allowed
    needed = {PROJECT["readme"], *PROJECT["license-files"], "src", "pyproject.toml"}
    assert needed <= allowed
