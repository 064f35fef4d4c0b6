"""JSON and YAML to objects and back. Errors name the file, the line if there is one, and the path of every wrong field.

Two ways to read, by how far the sender is trusted:
- `decode(type, bytes)` for what an API server sent: fast, looks at types only;
- `read_documents(bytes)`, then `convert(type, document)`, for what a user wrote: also checks quantities, times and
  durations, and takes a null member for an absent one.
Both report all problems at once. `document(kind, object)` writes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Set
from typing import Any, TypeVar

import msgspec

from restow.model.field_formats import are_formatted_fields_readable
from restow.model.kinds import Kind
from restow.model.problems import Problem, describe_value, find_problems, member_path
from restow.model.yaml_text import YamlError, load_documents

__all__ = [
    "Located",
    "Problem",
    "WireError",
    "convert_document",
    "convert_readable",
    "decode_object",
    "read_documents",
    "to_document",
]

T = TypeVar("T")

MAX_SHOWN = 50
MAX_UNPACKED = 2 * 1024**3
_GZIP_MAGIC = b"\x1f\x8b"


class WireError(ValueError):
    """Bytes or a document that cannot be read: `what` was read, and every problem with its path."""

    def __init__(self, what: str, problems: list[Problem]) -> None:
        self.what = what
        self.problems = problems
        shown = [str(problem) for problem in problems[:MAX_SHOWN]]
        if len(problems) > MAX_SHOWN:
            shown.append(f"and {len(problems) - MAX_SHOWN} more")
        super().__init__(f"{what}: {'; '.join(shown)}")


class Located(msgspec.Struct, frozen=True):
    """A document and where it was written: the file, and for YAML the line."""

    where: str
    document: dict[str, Any]


def decode_object(type: type[T], data: bytes | msgspec.Raw, what: str = "object") -> T:
    """Read JSON from an API server. Raises WireError."""
    try:
        return _decoder(type).decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(what, _decoding_problems(type, bytes(data), error)) from None


def convert_document(type: type[T], document: Mapping[str, Any], what: str = "object") -> T:
    """Read a document written by a user, checking quantities, times and durations too. Raises WireError."""
    try:
        cleaned = _without_nulls(document)
        problems = find_problems(type, cleaned, check_formats=True)
        if problems:
            raise WireError(what, problems)
        return msgspec.convert(cleaned, type)
    except msgspec.ValidationError as error:
        raise WireError(what, [Problem("", str(error))]) from None
    except RecursionError:
        raise WireError(what, [Problem("", "nested too deeply")]) from None


def convert_readable(type: type[T], document: Mapping[str, Any], what: str = "object") -> tuple[T, list[Problem]]:
    """Read a document written by a user as far as possible: the object without its invalid members, and their problems,
    so that further checks can report all mistakes at once. Raises WireError if the rest cannot be read by itself."""
    try:
        cleaned = _without_nulls(document)
        problems = find_problems(type, cleaned, check_formats=True)
        rest = _without_paths(cleaned, {problem.path for problem in problems}, "") if problems else cleaned
        return msgspec.convert(rest, type), problems
    except msgspec.ValidationError as error:
        raise WireError(what, problems or [Problem("", str(error))]) from None
    except RecursionError:
        raise WireError(what, [Problem("", "nested too deeply")]) from None


def _without_paths(value: Any, paths: Set[str], path: str) -> Any:
    """A document without the members at these paths; a list with such an item is removed as a whole, so that no item
    gets another index."""
    if isinstance(value, list):
        inner = [f"{path}[{index}]" for index in range(len(value))]
        if not paths.isdisjoint(inner):
            return []
        return [_without_paths(item, paths, place) for item, place in zip(value, inner, strict=True)]
    if isinstance(value, dict):
        kept = {key: member_path(path, str(key)) for key in value if member_path(path, str(key)) not in paths}
        return {key: _without_paths(value[key], paths, inner) for key, inner in kept.items()}
    return value


def to_document(kind: Kind[Any], value: msgspec.Struct) -> dict[str, Any]:
    """An object as the JSON document to create it with: its members, apiVersion and kind."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, **msgspec.to_builtins(value)}


def read_documents(data: bytes, name: str) -> list[dict[str, Any]]:
    """The objects in a file: JSON or YAML, one or many documents, Lists unpacked, gzip accepted. Raises WireError."""
    return [located.document for located in locate_documents(data, name)]


class RawItem(msgspec.Struct, frozen=True):
    """One object of a List in JSON, not yet read."""

    where: str
    raw: msgspec.Raw
    api_version: str
    kind: str
    """Its own apiVersion and kind, or those of the List where it has none."""

    def quickly(self, type: type[T]) -> T | None:
        """The object, if it has no null members and all of it is valid; None if it needs the slow path."""
        if b"null" in memoryview(self.raw).tobytes():
            return None
        try:
            value = _decoder(type).decode(self.raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return value if isinstance(value, msgspec.Struct) and are_formatted_fields_readable(value) else None

    def located(self) -> Located:
        """The document, for the slow path."""
        document = msgspec.json.decode(self.raw)
        return Located(self.where, {"apiVersion": self.api_version, "kind": self.kind, **document})


class _Head(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _RawList(_Head, rename="camel"):
    items: list[msgspec.Raw] = []


def raw_items(data: bytes, name: str) -> list[RawItem] | None:
    """The objects of a file that is one List in JSON, the usual and by far the largest; None for any other file."""
    try:
        listed = _decoder(_RawList).decode(_unpacked(data, name))
        if not listed.kind.endswith("List"):
            return None
        heads = [_decoder(_Head).decode(raw) for raw in listed.items]
        if any(head.kind.endswith("List") for head in heads):
            return None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    kind = listed.kind.removesuffix("List")
    version = listed.api_version if kind else ""
    return [
        RawItem(f"{name} items[{index}]", raw, head.api_version or version, head.kind or kind)
        for index, (raw, head) in enumerate(zip(listed.items, heads, strict=True))
    ]


def locate_documents(data: bytes, name: str) -> list[Located]:
    """`read_documents` with the place of each object, for messages about it."""
    text = _text(_unpacked(data, name), name)
    documents: list[Located] = []
    problems: list[Problem] = []
    waiting = [each for each in reversed(_values(text, name)) if each[1] is not None]
    while waiting:
        where, value = waiting.pop()
        if not isinstance(value, dict):
            problems.append(Problem(where, f"expected an object, got {describe_value(value)}"))
        elif not _is_list(str(value.get("kind", "")), value):
            documents.append(Located(where, value))
        elif isinstance(value.get("items"), list | None):
            waiting += reversed(_items(value, where))
        else:
            problems.append(Problem(f"{where} items", f"expected a list, got {describe_value(value['items'])}"))
    if problems:
        raise WireError("cannot read", problems)
    return documents


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(type: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _DECODERS.get(type)
    if decoder is None:
        decoder = _DECODERS[type] = msgspec.json.Decoder(type)
    return decoder


def _decoding_problems(type: type[Any], data: bytes, error: Exception) -> list[Problem]:
    """Why the typed decoder failed: malformed JSON, or every field of a wrong type."""
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        return [Problem("", "nested too deeply")]
    except (msgspec.DecodeError, UnicodeDecodeError) as broken:
        return [_not_json(data, broken)]
    return find_problems(type, value, check_formats=False) or [Problem("", str(error))]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _unpacked(data: bytes, name: str) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        result = unpack.decompress(data, MAX_UNPACKED)
    except zlib.error as error:
        raise WireError(name, [Problem("", f"broken gzip: {error}")]) from None
    if unpack.unconsumed_tail:
        raise WireError(name, [Problem("", f"unpacks to more than {MAX_UNPACKED} bytes")])
    if not unpack.eof:
        raise WireError(name, [Problem("", "broken gzip: the file ends early")])
    return result


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise WireError(name, [Problem("", f"line {line}: not UTF-8")]) from None


def _values(text: str, name: str) -> list[tuple[str, Any]]:
    """Each document and its place. What starts like JSON but is not may still be YAML's flow style."""
    looks_like_json = text.lstrip()[:1] in ("{", "[")
    json_problem = None
    if looks_like_json:
        try:
            return [(name, msgspec.json.decode(text))]
        except RecursionError:
            raise WireError(name, [Problem("", "nested too deeply")]) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            json_problem = _not_json(text.encode(), error)
    try:
        return [(f"{name}:{line}", value) for line, value in load_documents(text)]
    except YamlError as error:
        raise WireError(name, [json_problem or Problem("", f"not YAML: {error}")]) from None


def _not_json(data: bytes, error: Exception) -> Problem:
    message = str(error)
    match = re.search(r" \(byte (\d+)\)", message)
    if match is None:
        return Problem("", f"not JSON: {message}")
    before = data[: int(match[1])]
    line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
    return Problem("", f"not JSON: line {line}, column {column}: {message.replace(match[0], '')}")


def _is_list(kind: str, value: dict[str, Any]) -> bool:
    """Whether an object is a list; a custom kind whose name ends in List has no items."""
    return kind == "List" or (kind.endswith("List") and isinstance(value.get("items", ""), list | None))


def _items(value: dict[str, Any], where: str) -> list[tuple[str, Any]]:
    """What a List holds, and where; items of a typed one (PodList) take its apiVersion and the kind in its name."""
    kind = str(value["kind"]).removesuffix("List")
    own = {"apiVersion": value.get("apiVersion"), "kind": kind}
    items = enumerate(value.get("items") or [])
    return [
        (f"{where} items[{index}]", own | item if kind and isinstance(item, dict) and "kind" not in item else item)
        for index, item in items
    ]
