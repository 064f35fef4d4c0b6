"""What only a kubelet can answer: logs, exec and the like.

The embedded cluster has no containers. Asking for a log gives one true line; everything that needs a process in a
container is refused with the reason.
"""

from __future__ import annotations

import msgspec

from restow.adapters.memory import errors
from restow.adapters.rest.routing import Target
from restow.adapters.rest.unchecked_documents import sequence, text
from restow.model.objects import Document
from restow.ports import ApiError

LOG = "log"
NEEDS_CONTAINER = ("exec", "attach", "portforward", "proxy")


def is_log(target: Target) -> bool:
    return target.resource.group == "" and target.resource.plural == "pods" and target.subresource == LOG


def needs_container(target: Target) -> bool:
    return target.resource.group == "" and target.subresource in NEEDS_CONTAINER


def unavailable_error(target: Target) -> ApiError:
    path = f"{target.resource.plural}/{target.subresource}"
    return errors.bad_request(f"{path} is not available: the embedded kubelet runs no containers")


def log_text(pod: bytes, container: str) -> str:
    """The log of a pod's container; refuses containers that the pod does not have."""
    document: Document = msgspec.json.decode(pod)
    name, namespace = text(document, "metadata", "name"), text(document, "metadata", "namespace")
    lists = ("containers", "initContainers", "ephemeralContainers")
    known = [text(each, "name") for field in lists for each in sequence(document, "spec", field)]
    if container and container not in known:
        raise errors.bad_request(f"container {container} is not valid for pod {name}")
    return f"pod {namespace}/{name} has no logs: the embedded kubelet runs no containers\n"
