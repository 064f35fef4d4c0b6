"""Running kubectl in tests: which binaries there are, and one of them set up against a server."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

OLDEST_MINOR = 29


@cache
def binaries() -> dict[str, Path]:
    """Every kubectl that is supported, oldest first: the one on PATH, and versions installed beside it."""
    on_path = shutil.which("kubectl")
    if on_path is None:
        return {}
    beside = Path(on_path).resolve().parent.glob("kubectl.1.*")
    minors = {path: _minor(path) for path in [*beside, Path(on_path)]}
    known = {f"1.{minor}": path for path, minor in minors.items() if minor >= OLDEST_MINOR}
    return dict(sorted(known.items(), key=lambda item: minors[item[1]]))


def ends() -> list[str]:
    """The oldest and the newest; all of them when KUBECTL=all."""
    names = list(binaries())
    return names if os.environ.get("KUBECTL") == "all" else list(dict.fromkeys([*names[:1], *names[-1:]]))


def _minor(path: Path) -> int:
    output = subprocess.run(
        [path, "version", "--client"], capture_output=True, text=True, check=False, timeout=30
    ).stdout
    match = re.search(r"Client Version: v1\.(\d+)", output)
    return int(match[1]) if match else 0


class Kubectl:
    """One kubectl with a home, cache and kubeconfig of its own."""

    def __init__(self, binary: Path, folder: Path, kubeconfig: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "KUBECACHEDIR": str(folder / "cache"),
            "NO_PROXY": "*",
            "GOGC": "off",  # over before there is garbage to speak of: a quarter less work
        }

    async def start(self, *arguments: str, stdin: str | None = None, **environment: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            self._binary,
            *arguments,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self._environment, **environment},
            cwd=self._folder,
        )

    async def run(self, *arguments: str, stdin: str | None = None, **environment: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)"""
        process = await self.start(*arguments, stdin=stdin, **environment)
        try:
            async with asyncio.timeout(30):
                out, err = await process.communicate(stdin.encode() if stdin is not None else None)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def __call__(self, *arguments: str, stdin: str | None = None, **environment: str) -> str:
        """What it printed on stdout; a failure or anything on stderr fails the test."""
        code, out, err = await self.run(*arguments, stdin=stdin, **environment)
        assert (code, err) == (0, ""), f"kubectl {' '.join(arguments)}: exit {code}\n{out}{err}"
        return out

    async def refused(self, *arguments: str, stdin: str | None = None) -> str:
        """What it printed on stderr when it failed."""
        code, out, err = await self.run(*arguments, stdin=stdin)
        assert code != 0, f"kubectl {' '.join(arguments)} did not fail:\n{out}{err}"
        return err
