"""POST pods/binding: the only way to assign a pod to a node."""

from __future__ import annotations

from restow.adapters.memory import errors, query_parameters, request_bodies
from restow.adapters.memory.resources import ResourceType
from restow.adapters.memory.state import State, set_condition
from restow.adapters.memory.store import Stored, encode_json
from restow.model.objects import Document
from restow.ports import Request, Response

SUCCESS = encode_json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


def bind_pod(state: State, served: ResourceType, request: Request) -> Response:
    """Assign a pod to a node; annotations and labels of the Binding go onto the pod in the same write."""
    binding = request_bodies.read_as(request, "", "Binding")
    metadata = binding["metadata"]
    name = request.name or metadata.get("name") or ""
    if metadata.get("name") not in (None, "", name):
        raise errors.bad_request("name in URL does not match name in Binding object")
    node = _target(binding, name)
    pods = state.builtin("pods")
    stored = pods.get(request.namespace or "", name)
    if stored is None:
        raise errors.not_found("pods", "", name)
    _check_preconditions(stored, metadata)
    pod = stored.document()
    _check_unassigned(pod)
    pod["spec"]["nodeName"] = node
    for part in ("annotations", "labels"):
        if metadata.get(part):
            pod["metadata"][part] = {**pod["metadata"].get(part, {}), **metadata[part]}
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(status, {"type": "PodScheduled", "status": "True", "lastProbeTime": None}, state.stamp())
    if not query_parameters.dry_run(request):
        state.store.put(pods, pod)
    return Response(body=SUCCESS, code=201)


def _target(binding: Document, name: str) -> str:
    target = binding.get("target") or {}
    causes = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(errors.unsupported_value("target.kind", str(target["kind"]), ["Node", "<empty>"]))
    if not target.get("name"):
        causes.append(errors.required_value("target.name"))
    if causes:
        raise errors.invalid_object("", "Binding", name, causes)
    return str(target["name"])


def _check_preconditions(stored: Stored, metadata: Document) -> None:
    for field, given, present in (
        ("UID", metadata.get("uid"), stored.uid),
        ("ResourceVersion", metadata.get("resourceVersion"), str(stored.version)),
    ):
        if given and given != present:
            why = f"Precondition failed: {field} in precondition: {given}, {field} in object meta: {present}"
            raise errors.conflict_error("pods", "", stored.name, why)


def _check_unassigned(pod: Document) -> None:
    name, spec = pod["metadata"]["name"], pod["spec"]
    why = ""
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise errors.conflict_error("pods/binding", "", name, why)
