"""A parser of HTTP/1.1 responses, wherever their bytes are cut. No I/O here.

In: the bytes that a connection receives. Out: an `HttpResponse` once it is complete. It ends where its length or its
last chunk says; without either, where the connection ends. Interim responses (1xx) are passed over.

    head ──length──> body ─────────────> whole
      ├───chunked──> chunks, one by one ──> whole
      └───neither──> body, until `end`
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Mapping

import msgspec

LONGEST_HEAD = 64 * 1024
_JSON = b"\r\ncontent-type: application/json\r\n"
_LENGTH = b"\r\ncontent-length: "
_OF_INTEREST = tuple(
    b"\r\n%s:" % name for name in (b"transfer-encoding", b"content-encoding", b"connection", b"warning")
)
_STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-5][0-9]{2})(?: |$)")


class MalformedResponse(Exception):
    """The received bytes are no HTTP response."""


class HttpResponse(msgspec.Struct, frozen=True):
    """A status code, headers by their names in small letters, and the body."""

    code: int
    headers: Mapping[str, str]
    body: bytes = b""
    ends_connection: bool = False
    is_ordinary: bool = False
    """A success in JSON that says nothing else of interest; its headers are left out."""


def decompressed_response(answer: HttpResponse) -> HttpResponse:
    """The response with its body decompressed. Raises MalformedResponse."""
    if answer.headers.get("content-encoding") != "gzip":
        return answer
    try:
        return msgspec.structs.replace(answer, body=gzip.decompress(answer.body))
    except (OSError, EOFError, zlib.error) as error:
        raise MalformedResponse(f"broken gzip: {error}") from None


def headers_of(lines: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by name; the values of one that occurs several times are a list, which is written with commas."""
    headers: dict[str, str] = {}
    for name, value in lines:
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


class HttpResponseParser:
    """Parses one response after the other; bytes after a complete one belong to the next."""

    def __init__(self) -> None:
        self._received = b""
        self._head: HttpResponse | None = None
        self._length: int | None = None
        self._chunks: list[bytes] | None = None

    @property
    def has_begun(self) -> bool:
        return bool(self._received) or self._head is not None

    def feed(self, data: bytes) -> HttpResponse | None:
        """The response, if these bytes complete it. Raises MalformedResponse."""
        self._received = self._received + data if self._received else data
        while self._head is None:
            end = self._received.find(b"\r\n\r\n")
            if end > LONGEST_HEAD or (end < 0 and len(self._received) > LONGEST_HEAD):
                raise MalformedResponse("its head is too long")
            if end < 0:
                return None
            self._begin(self._received[:end])
            self._received = self._received[end + 4 :]
        if self._chunks is not None:
            return self._feed_chunks(self._chunks)
        if self._length is None or len(self._received) < self._length:
            return None
        return self._finish(self._received[: self._length], self._received[self._length :])

    def end(self) -> HttpResponse | None:
        """The response that ends with the connection, if there is one."""
        if self._head is None or self._length is not None or self._chunks is not None:
            return None
        return self._finish(self._received, b"")

    def _begin(self, head: bytes) -> None:
        self._length = _ordinary_length(head)
        if self._length is not None:
            self._head = HttpResponse(int(head[9:12]), {}, is_ordinary=True)
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        match = _STATUS_LINE.match(first)
        if match is None:
            raise MalformedResponse("it does not begin like HTTP")
        code = int(match[2])
        if code < 200:
            return
        parts = [line.partition(":") for line in lines]
        headers = headers_of((name, value.strip(" \t")) for name, _, value in parts)
        self._head = HttpResponse(
            code, headers, ends_connection=self._set_body_end(code, headers) or _closes_connection(match[1], headers)
        )

    def _set_body_end(self, code: int, headers: Mapping[str, str]) -> bool:
        """Set the length of the body or the list of its chunks; True if the body ends only with the connection."""
        encoding, length = headers.get("transfer-encoding"), headers.get("content-length")
        # The order of RFC 9112, 6.3: these codes never have a body, and a transfer encoding overrides a length.
        if code in (204, 304):
            self._length = 0
        elif encoding is not None:
            if encoding.lower() != "chunked":
                raise MalformedResponse(f"its transfer encoding is {encoding!r}")
            self._chunks = []
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise MalformedResponse(f"its length is {length!r}")
            self._length = int(length)
        return self._length is None and self._chunks is None

    def _feed_chunks(self, chunks: list[bytes]) -> HttpResponse | None:
        while True:
            line, newline, rest = self._received.partition(b"\r\n")
            if not newline:
                if len(line) > LONGEST_HEAD:
                    raise MalformedResponse("a chunk does not say how long it is")
                return None
            size = _size_of(line)
            if size == 0:
                return self._feed_trailer(chunks, rest)
            # Until the whole chunk is here, its size line stays in the buffer and is read again.
            if len(rest) < size + 2:
                return None
            if rest[size : size + 2] != b"\r\n":
                raise MalformedResponse("a chunk is longer than it says")
            chunks.append(rest[:size])
            self._received = rest[size + 2 :]

    def _feed_trailer(self, chunks: list[bytes], rest: bytes) -> HttpResponse | None:
        """After the last chunk: trailer lines, which are ignored, and an empty one."""
        if rest.startswith(b"\r\n"):
            return self._finish(b"".join(chunks), rest[2:])
        end = rest.find(b"\r\n\r\n")
        if end < 0:
            return None
        return self._finish(b"".join(chunks), rest[end + 4 :])

    def _finish(self, body: bytes, rest: bytes) -> HttpResponse:
        assert self._head is not None
        head = self._head
        whole = HttpResponse(head.code, head.headers, body, head.ends_connection, head.is_ordinary)
        self._received, self._head, self._length, self._chunks = rest, None, None, None
        return whole


def _ordinary_length(head: bytes) -> int | None:
    """The length of the body, if this is the head of an ordinary response, as nearly all are: searching the head is
    cheaper than parsing every line."""
    small = head.lower() + b"\r\n"
    if not small.startswith((b"http/1.1 200 ", b"http/1.1 201 ")) or _JSON not in small:
        return None
    if small.count(_LENGTH) != 1 or any(header in small for header in _OF_INTEREST):
        return None
    length = small.partition(_LENGTH)[2].partition(b"\r\n")[0]
    return int(length) if length.isdigit() else None


def _closes_connection(version: str, headers: Mapping[str, str]) -> bool:
    """Whether the server ends the connection after this response."""
    connection = headers.get("connection", "").lower()
    return "close" in connection or (version == "0" and "keep-alive" not in connection)


def _size_of(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9a-fA-F]{1,15}", digits):
        raise MalformedResponse("a chunk does not say how long it is")
    return int(digits, 16)
