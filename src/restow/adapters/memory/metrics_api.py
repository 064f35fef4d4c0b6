"""metrics.k8s.io: the usage of nodes and pods, from an injected source.

The source is called with `"nodes"` or `"pods"` and returns a list of metrics documents (`metadata`, `timestamp`,
`window`, `usage` or `containers`), or None where there are no measurements, which is a 404. With the source
`no_metrics` the group is not served at all.
"""

from __future__ import annotations

from collections.abc import Callable

from restow.adapters.memory import errors
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.store import encode_json
from restow.model.objects import Document
from restow.model.selectors import SelectorError, parse_label_selector
from restow.ports import Request, Response

GROUP = "metrics.k8s.io"
MetricsSource = Callable[[str], list[Document] | None]


def no_metrics(plural: str) -> list[Document] | None:
    return None


def answer_metrics(usage: MetricsSource, served: ResourceType, request: Request) -> Response:
    measured = usage(served.plural)
    if measured is None:
        raise errors.unknown_resource()
    head = {"kind": served.kind, "apiVersion": served.api_version}
    documents = [{**head, **each} for each in measured if _in_namespace(each, request.namespace)]
    if request.verb == "get":
        for document in documents:
            if document["metadata"]["name"] == request.name:
                return Response(body=encode_json(document))
        raise errors.not_found(f"{served.kind.lower()}s", GROUP, request.name or "")
    try:
        selector = parse_label_selector(request.query.get("labelSelector", ""))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None
    items = [each for each in documents if selector.matches(each["metadata"].get("labels"))]
    body = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": {}, "items": items}
    return Response(body=encode_json(body))


def _in_namespace(document: Document, namespace: str | None) -> bool:
    return namespace is None or document["metadata"].get("namespace") == namespace
