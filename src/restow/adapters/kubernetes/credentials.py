"""Credentials for the server, and how they are kept fresh.

In goes the time, out comes an `Identity`: headers and perhaps a client certificate. After a 401 the transport asks to
`renew`, naming the identity that was refused, so that many refused requests renew it once.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from pathlib import Path
from typing import Protocol

import msgspec

log = logging.getLogger(__name__)

REREAD = 60.0  # seconds between reads of files that other programs rotate
AHEAD = 60.0  # seconds before its end, at most, at which the successor of an identity is fetched
_UNSPEAKABLE = re.compile(r"[\x00-\x1f\x7f]")


class ConfigError(ValueError):
    """The configuration or a credential cannot be used; one line that says where and why."""


class Certificate(msgspec.Struct, frozen=True):
    """A client certificate (with its chain) and its key, as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Certificate(…)"


class Identity(msgspec.Struct, frozen=True):
    """The Authorization header and the client certificate to send, if any."""

    authorization: str | None = None
    certificate: Certificate | None = None

    @classmethod
    def bearer(cls, token: str, certificate: Certificate | None = None) -> Identity:
        """Raises ConfigError for a token that no header can carry, such as one of several lines."""
        if not fits_header(token):
            raise ConfigError("the token holds line breaks or other control characters")
        return cls(f"Bearer {token}", certificate)

    @classmethod
    def basic(cls, username: str, password: str, certificate: Certificate | None = None) -> Identity:
        secret = base64.b64encode(f"{username}:{password}".encode()).decode()
        return cls(f"Basic {secret}", certificate)

    def __repr__(self) -> str:
        return "Identity(…)"


class Credentials(Protocol):
    async def current(self, now: float) -> Identity:
        """The identity to use at this wall time. Raises ConfigError when there is none."""
        ...

    async def renew(self, refused: Identity, now: float) -> bool:
        """Look for a newer identity than the refused one; whether there is one."""
        ...


class StaticCredentials:
    """An identity that never changes."""

    def __init__(self, identity: Identity | None = None) -> None:
        self._identity = identity or Identity()

    async def current(self, now: float) -> Identity:
        return self._identity

    async def renew(self, refused: Identity, now: float) -> bool:
        return False


class FileCredentials:
    """An identity in files that other programs rotate: a token file, a certificate and its key, or both. Read every
    minute."""

    def __init__(
        self,
        *,
        token: Path | None = None,
        certificate: tuple[Path, Path] | None = None,
        base: Identity | None = None,
    ) -> None:
        self._token = token
        self._certificate = certificate
        self._base = base or Identity()
        self._identity: Identity | None = None
        self._read_at = 0.0

    async def current(self, now: float) -> Identity:
        # Below 0: the wall clock was set back, and the age of what was read is unknown.
        if self._identity is None or not 0 <= now - self._read_at < REREAD:
            self._read(now)
        assert self._identity is not None
        return self._identity

    async def renew(self, refused: Identity, now: float) -> bool:
        self._read(now)
        return self._identity != refused

    def _read(self, now: float) -> None:
        try:
            self._identity = self.read()
        except ConfigError as error:
            # A file may be read in the middle of its rotation; the previous token is usually still valid.
            if self._identity is None:
                raise
            log.warning("credentials not re-read, using the previous ones", extra={"err": str(error)})
        self._read_at = now

    def read(self) -> Identity:
        """The identity in the files now. Raises ConfigError."""
        authorization = self._base.authorization
        certificate = self._base.certificate
        if self._token is not None:
            token = read_file(self._token).decode("utf-8", "replace").strip()
            if not token:
                raise ConfigError(f"token file {self._token} is empty")
            try:
                authorization = Identity.bearer(token).authorization
            except ConfigError as error:
                raise ConfigError(f"token file {self._token}: {error}") from None
        if self._certificate is not None:
            certificate = Certificate(*map(read_file, self._certificate))
        return Identity(authorization, certificate)


class RenewableCredentials:
    """An identity that has to be fetched, and expires. Subclasses implement `fetch`.

    One fetch serves all requests that wait for it, and goes on when they give up: a request with little time does not
    undo the log-in of the others. Shortly before an identity expires, its successor is fetched while it is still in
    use.
    """

    def __init__(self) -> None:
        self._identity: Identity | None = None
        self._expires = float("inf")
        self._due = float("inf")
        self._fetching: asyncio.Task[Identity] | None = None

    async def fetch(self) -> tuple[Identity, float | None]:
        """A new identity and the wall time at which it expires, if it does. Takes a limited time."""
        raise ConfigError("no way to fetch credentials")

    async def current(self, now: float) -> Identity:
        if self._identity is None or now >= self._expires:
            return await asyncio.shield(self._fetch_once(now))
        if now >= self._due:
            self._fetch_once(now)
        return self._identity

    async def renew(self, refused: Identity, now: float) -> bool:
        if self._identity is None or self._identity == refused:
            await asyncio.shield(self._fetch_once(now))
        return self._identity != refused

    def _fetch_once(self, now: float) -> asyncio.Task[Identity]:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch(now))
            self._fetching.add_done_callback(_log_failure)
        return self._fetching

    async def _fetch(self, now: float) -> Identity:
        self._due = float("inf")
        identity, expires = await self.fetch()
        self._identity = identity
        if expires is None:
            self._expires = float("inf")
        else:
            self._expires = expires
            self._due = expires - min(AHEAD, (expires - now) / 5)
        return identity


def _log_failure(task: asyncio.Task[Identity]) -> None:
    """Log the error of a fetch: the requests that waited for it may all have given up."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.info("credentials not fetched", extra={"err": str(error)})


def fits_header(text: str) -> bool:
    return _UNSPEAKABLE.search(text) is None


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # a name with a null character
        raise ConfigError(f"{str(path)!r}: {error}") from None
