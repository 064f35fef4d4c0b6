"""One child program: started in its own process group with its output in a log file, and sure to end.

It ends when told (SIGTERM, then SIGKILL) and also when the program that started it dies (Linux), so a killed test run
leaves nothing behind. Start children from a thread that lives as long as they should: the kernel counts the starting
thread as the parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class ProcessDied(Exception):
    """A child ended by itself; the message carries the end of its log."""


class Process:
    def __init__(self, argv: list[str], log: Path) -> None:
        self.name = Path(argv[0]).name
        self._argv = argv
        self._log = log
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        parent = os.getpid()

        def die_with_parent() -> None:
            if _LIBC is not None:
                _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != parent:  # it died between fork and prctl
                    os._exit(1)

        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - children start before any other thread does
            )

    def check(self) -> None:
        """Raise ProcessDied unless the child is running."""
        if self._child is None:
            raise ProcessDied(f"{self.name} was not started")
        code = self._child.poll()
        if code is not None:
            raise ProcessDied(f"{self.name} ended with code {code}; the end of {self._log}:\n{self.tail()}")

    def signal(self, number: int) -> None:
        """Send a signal to the whole process group, if it is still there."""
        if self._child is not None and self._child.poll() is None:
            os.killpg(self._child.pid, number)

    def ended(self) -> bool:
        return self._child is None or self._child.poll() is not None

    def wait(self, seconds: float) -> None:
        """Wait for the end; after `seconds`, force it."""
        deadline = time.monotonic() + seconds
        while not self.ended() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.signal(signal.SIGKILL)
        if self._child is not None:
            self._child.wait()

    def cpu_seconds(self) -> float:
        """What the child has used so far, in all threads (Linux)."""
        if self._child is None:
            return 0.0
        fields = Path(f"/proc/{self._child.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
