"""The query parameters of a request, read and checked the way kube-apiserver checks them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from restow.adapters.memory import errors
from restow.ports import Request, StatusCause

_META = "meta.k8s.io"
_MOST = 2**63 - 1  # numbers are int64 in Go
_TRUE = ("true", "1")
_FALSE = ("false", "0")


def boolean_parameter(query: Mapping[str, str], name: str) -> bool | None:
    text = query.get(name)
    if text is None or text == "":
        return None
    if text.lower() not in (*_TRUE, *_FALSE):
        raise errors.bad_request(f"invalid value {text!r} for query parameter {name}: expected true or false")
    return text.lower() in _TRUE


def integer_parameter(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None or text == "":
        return None
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or not _fits(digits):
        raise errors.bad_request(f"invalid value {text[:40]!r} for query parameter {name}: expected an integer")
    return int(text)


def resource_version(query: Mapping[str, str]) -> int | None:
    """The resourceVersion asked for; None when unset."""
    text = query.get("resourceVersion", "")
    if text == "":
        return None
    if not text.isascii() or not text.isdigit() or not _fits(text):
        raise errors.bad_request(f"resourceVersion: Invalid value: {text[:40]!r}: not an unsigned integer")
    return int(text)


def _fits(digits: str) -> bool:
    digits = digits.lstrip("0")
    return len(digits) < 20 and int(digits or "0") <= _MOST


def dry_run(request: Request) -> bool:
    text = request.query.get("dryRun", "")
    if text not in ("", "All"):
        raise _invalid_options(_kind_of_options(request), [errors.unsupported_value("dryRun", text, ["All"])])
    return text == "All"


def field_manager(request: Request) -> str:
    return request.query.get("fieldManager", "")


def field_validation(request: Request) -> str:
    """Strict, Warn or Ignore: what to do about unknown fields. The default is upstream's: warn."""
    text = request.query.get("fieldValidation", "") or "Warn"
    if text not in ("Strict", "Warn", "Ignore"):
        cause = errors.unsupported_value("fieldValidation", text, ["", "Ignore", "Strict", "Warn"])
        raise _invalid_options(_kind_of_options(request), [cause])
    return text


class ListOptions(msgspec.Struct, frozen=True):
    """What a list asks for, apart from the selection."""

    version: int | None
    match: str
    limit: int
    token: str

    @classmethod
    def read(cls, query: Mapping[str, str]) -> ListOptions:
        match = query.get("resourceVersionMatch", "")
        token = query.get("continue", "")
        causes = [] if "sendInitialEvents" not in query else [_forbidden("sendInitialEvents", "is forbidden for list")]
        if match:
            causes += _match_causes(query, match)
        if causes:
            raise _invalid_options("ListOptions", causes)
        wanted = resource_version(query)
        if token and wanted:
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        limit = max(integer_parameter(query, "limit") or 0, 0)
        # "Any version will do" is answered whole: that is how kube-apiserver's cache answers it.
        return cls(wanted, match, 0 if wanted == 0 and not token else limit, token)


class WatchOptions(msgspec.Struct, frozen=True):
    """Where a watch starts and what it sends besides changes."""

    version: int | None
    initial: bool | None
    bookmarks: bool
    timeout: int | None

    @classmethod
    def read(cls, query: Mapping[str, str]) -> WatchOptions:
        match = query.get("resourceVersionMatch", "")
        initial = boolean_parameter(query, "sendInitialEvents")
        causes: list[StatusCause] = []
        if initial is not None and match != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            causes.append(errors.forbidden_value("resourceVersionMatch", why))
        if match and initial is None:
            causes.append(
                _forbidden("resourceVersionMatch", "is forbidden for watch unless sendInitialEvents is provided")
            )
        if match and match != "NotOlderThan":
            causes.append(errors.unsupported_value("resourceVersionMatch", match, ["NotOlderThan"]))
        if causes:
            raise _invalid_options("ListOptions", causes)
        timeout = integer_parameter(query, "timeoutSeconds")
        return cls(
            resource_version(query), initial, bool(boolean_parameter(query, "allowWatchBookmarks")), timeout or None
        )


def _match_causes(query: Mapping[str, str], match: str) -> list[StatusCause]:
    causes = []
    if not query.get("resourceVersion"):
        causes.append(_forbidden("resourceVersionMatch", "is forbidden unless resourceVersion is provided"))
    if query.get("continue"):
        causes.append(_forbidden("resourceVersionMatch", "is forbidden when continue is provided"))
    if match not in ("Exact", "NotOlderThan"):
        causes.append(errors.unsupported_value("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and query.get("resourceVersion") == "0":
        causes.append(_forbidden("resourceVersionMatch", '"exact" is forbidden for resourceVersion "0"'))
    return causes


def _forbidden(field: str, why: str) -> StatusCause:
    return errors.forbidden_value(field, f"{field} {why}")


def invalid_patch_options(causes: list[StatusCause]) -> Exception:
    return _invalid_options("PatchOptions", causes)


def _invalid_options(kind: str, causes: list[StatusCause]) -> Exception:
    return errors.invalid_object(_META, kind, "", causes)


def _kind_of_options(request: Request) -> str:
    return {"create": "CreateOptions", "patch": "PatchOptions", "replace": "UpdateOptions"}.get(
        request.verb, "DeleteOptions"
    )
