"""Credentials from an exec plugin (client.authentication.k8s.io v1, v1beta1): a command that prints an ExecCredential.

The command learns about the request through KUBERNETES_EXEC_INFO. What it prints is kept until its expirationTimestamp,
or until the server answers 401. Its output is never logged.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from restow.adapters.kubernetes.credentials import Certificate, ConfigError, Identity, RenewableCredentials
from restow.model.times import TimeError, parse_time
from restow.model.wire import WireError, decode_object

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
TIMEOUT = 60.0


class ExecCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. `cluster` is the cluster's part of KUBERNETES_EXEC_INFO, if the plugin asked for it."""

    api_version: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    directory: Path
    install_hint: str | None = None
    interactive_mode: str = "IfAvailable"
    cluster: Mapping[str, Any] | None = None
    where: str = "exec plugin"

    @property
    def path(self) -> str:
        """The command to run: a relative path is relative to the kubeconfig, a bare name is looked up in PATH."""
        if os.sep in self.command and not Path(self.command).is_absolute():
            return str(self.directory / self.command)
        return self.command


class _CredentialStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    kind: str
    api_version: str
    status: _CredentialStatus | None = None


class ExecCredentials(RenewableCredentials):
    """The identity that a plugin prints, and nothing else: no plugin is run for a user with other credentials."""

    def __init__(
        self, command: ExecCommand, *, env: Mapping[str, str], terminal: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__()
        self._command = command
        self._env = env
        self._terminal = terminal

    async def fetch(self) -> tuple[Identity, float | None]:
        output = await self._run(self._interactive())
        return self._parse(output)

    def _interactive(self) -> bool:
        mode = self._command.interactive_mode
        if mode == "Never":
            return False
        available = self._terminal()
        if mode == "Always" and not available:
            raise self._error("needs a terminal (interactiveMode Always), and there is none")
        return available

    async def _run(self, interactive: bool) -> bytes:
        command = self._command
        environment = {**self._env, **command.env, "KUBERNETES_EXEC_INFO": self._exec_info(interactive)}
        try:
            process = await asyncio.create_subprocess_exec(
                command.path,
                *command.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._error(f"cannot run {command.path!r}: {error.strerror or error}", hint=True) from None
        except ValueError as error:  # a null character in the command, an argument or a variable
            raise self._error(f"cannot run {command.path!r}: {error}") from None
        try:
            async with asyncio.timeout(None if interactive else TIMEOUT):
                output, complaint = await process.communicate()
        except TimeoutError:
            raise self._error(f"{command.path!r} did not answer within {TIMEOUT:g}s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            last = (complaint or b"").decode("utf-8", "replace").strip().splitlines()[-1:]
            reason = f": {last[0]}" if last else ""
            raise self._error(f"{command.path!r} failed with exit code {process.returncode}{reason}")
        return output

    def _exec_info(self, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._command.cluster is not None:
            spec["cluster"] = self._command.cluster
        info = {"kind": "ExecCredential", "apiVersion": self._command.api_version, "spec": spec}
        return msgspec.json.encode(info).decode()

    def _parse(self, output: bytes) -> tuple[Identity, float | None]:
        try:
            credential = decode_object(_ExecCredential, output, "its output")
            status = credential.status or _CredentialStatus()
            expires = parse_time(status.expiration_timestamp) if status.expiration_timestamp else None
        except (WireError, TimeError) as error:
            raise self._error(str(error)) from None
        if credential.api_version != self._command.api_version:
            raise self._error(f"printed apiVersion {credential.api_version}, expected {self._command.api_version}")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._error("printed a client certificate without its key, or a key without its certificate")
        if not status.token and not status.client_certificate_data:
            raise self._error("printed neither a token nor a client certificate")
        try:
            return _identity(status), expires
        except ConfigError as error:
            raise self._error(str(error)) from None

    def _error(self, message: str, *, hint: bool = False) -> ConfigError:
        advice = f". {self._command.install_hint.strip()}" if hint and self._command.install_hint else ""
        return ConfigError(f"{self._command.where}: {message}{advice}")


def _identity(status: _CredentialStatus) -> Identity:
    certificate = None
    if status.client_certificate_data and status.client_key_data:
        certificate = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
    return Identity.bearer(status.token, certificate) if status.token else Identity(None, certificate)
