"""What form of an answer a client asks for in its Accept header.

In: the header and the forms on offer besides plain JSON. Out: the first form the client prefers among them, or None
for plain JSON. Kubernetes clients ask for other forms with parameters: `application/json;as=Table;v=v1;g=meta.k8s.io`.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from restow.ports import ApiError, Invalid

JSON_RANGES = ("application/json", "application/*", "*/*")


class Form(NamedTuple):
    """A shape of answer other than the object itself."""

    shape: str
    group: str
    version: str


class _Range(NamedTuple):
    media_type: str
    parameters: dict[str, str]
    quality: float


META = "meta.k8s.io"
DISCOVERY = "apidiscovery.k8s.io"
TABLE, PARTIAL, PARTIAL_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"

OBJECT_FORMS = frozenset(
    Form(shape, META, version) for shape in (TABLE, PARTIAL, PARTIAL_LIST) for version in ("v1", "v1beta1")
)
DISCOVERY_FORMS = frozenset(Form("APIGroupDiscoveryList", DISCOVERY, version) for version in ("v2", "v2beta1"))


class NotAcceptable(Exception):
    """The client accepts nothing that can be served."""


def negotiate_form(accept: str, forms: Collection[Form]) -> Form | None:
    if not accept.strip():
        return None
    for wanted in _ranges(accept):
        if wanted.media_type not in JSON_RANGES or wanted.quality == 0:
            continue
        if "as" not in wanted.parameters:
            return None
        form = Form(wanted.parameters["as"], wanted.parameters.get("g", ""), wanted.parameters.get("v", ""))
        if form in forms:
            return form
    raise NotAcceptable


def not_acceptable() -> ApiError:
    message = "only the following media types are accepted: application/json"
    return Invalid.because(406, "NotAcceptable", message)


@lru_cache(maxsize=256)
def _ranges(accept: str) -> tuple[_Range, ...]:
    """The media ranges of the header, most wanted first; equals keep the client's order."""
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    return tuple(sorted(ranges, key=lambda each: -each.quality))


def _range(text: str) -> _Range:
    media_type, *pairs = (part.strip() for part in text.split(";"))
    parameters = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 1.0
    return _Range(media_type.lower(), parameters, quality)
