"""The image, without building it: the Containerfile agrees with the package and with the Deployment of `restow
install`.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from restow.cli import main
from restow.defaults import PORT
from restow.running.install_manifest import install_documents

ROOT = Path(__file__).parents[2]
LINES = [line.split(maxsplit=1) for line in (ROOT / "Containerfile").read_text().splitlines() if line[:1].isalpha()]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def arguments_of(instruction: str) -> list[str]:
    return [rest for word, rest in LINES if word == instruction]


def pod() -> dict[str, Any]:
    documents = install_documents(namespace="restow-system", image="registry.example/restow:1")
    [deployment] = [each for each in documents if each["kind"] == "Deployment"]
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def test_entry_point_is_the_command_of_the_package() -> None:
    [entry], [arguments] = arguments_of("ENTRYPOINT"), arguments_of("CMD")
    assert PROJECT["scripts"] == {json.loads(entry)[0]: f"{main.__module__}:{main.__name__}"}
    [container] = pod()["containers"]
    assert "command" not in container and container["args"][:1] == json.loads(arguments)


def test_arguments_of_the_deployment_are_valid() -> None:
    from click.testing import CliRunner

    from restow.cli import restow

    [container] = pod()["containers"]
    done = CliRunner().invoke(restow, [*container["args"], "--help"])
    assert done.exit_code == 0, done.output


def test_user_and_port_match_the_deployment() -> None:
    spec = pod()
    [container] = spec["containers"]
    assert arguments_of("USER") == [f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsUser']}"]
    assert arguments_of("EXPOSE") == [str(PORT)] == [str(container["ports"][0]["containerPort"])]


def test_python_is_pinned_and_the_same_in_both_stages() -> None:
    [argument] = arguments_of("ARG")
    minor = re.fullmatch(r"PYTHON=3\.(\d+)", argument)
    assert minor is not None and f">=3.{min(int(minor.group(1)), 11)}" == PROJECT["requires-python"]
    assert [one.split(" AS ")[0] for one in arguments_of("FROM")] == ["python:${PYTHON}-slim"] * 2


@pytest.mark.parametrize("line", [one for one in arguments_of("COPY") if not one.startswith("--from")])
def test_copied_files_exist_and_are_not_ignored(line: str) -> None:
    allowed = {one[1:] for one in (ROOT / ".containerignore").read_text().splitlines() if one.startswith("!")}
    for name in line.split()[:-1]:
        assert (ROOT / name).exists() and name in allowed
    needed = {PROJECT["readme"], *PROJECT["license-files"], "src", "pyproject.toml"}
    assert needed <= allowed
