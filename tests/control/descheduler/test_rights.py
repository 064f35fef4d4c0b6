"""Rights: packing a cluster, from the plan to the last move, asks for nothing that `restow install` does not grant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from restow.client.verbs import Client
from restow.ports import Api, Request, Response
from restow.running.install_manifest import CLUSTER_PERMISSIONS, NAMESPACE_PERMISSIONS, Permission
from tests.control.descheduler.descheduler_fixture import cluster_with_descheduler, defragmentation_section
from tests.sim.simulated_cluster import on_virtual_time, pass_time

Right = tuple[str, str, str, str]
"""Verb, group, resource and subresource."""
VERBS = {"replace": "update"}


class Watched:
    """An Api that notes what is asked of it."""

    def __init__(self, api: Api, noted: set[Right]) -> None:
        self._api, self._noted = api, noted

    async def call(self, request: Request) -> Response:
        self._note(request)
        return await self._api.call(request)

    def watch(self, request: Request) -> AsyncIterator[bytes]:
        self._note(request)
        return self._api.watch(request)

    def _note(self, request: Request) -> None:
        verb, about = VERBS.get(request.verb, request.verb), request.resource
        self._noted.add((verb, about.group, about.plural, request.subresource or ""))


def granted(permissions: tuple[Permission, ...]) -> Iterator[Right]:
    for one in permissions:
        for kind in one.kinds:
            yield from ((verb, kind.group, kind.plural, one.subresource) for verb in one.verbs)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> set[Right]:
    """What our components ask for, by the name under which they write."""
    found: set[Right] = set()
    init = Client.__init__

    def watched(self: Client, api: Api, **options: Any) -> None:
        manager = str(options.get("manager", ""))
        ours = manager.startswith("restow-") and manager != "restow-world"
        init(self, Watched(api, found) if ours else api, **options)

    monkeypatch.setattr(Client, "__init__", watched)
    return found


@on_virtual_time
async def test_descheduler_makes_no_request_without_a_granted_right(noted: set[Right]) -> None:
    async with cluster_with_descheduler(defragmentation_section(interval="30s")) as it:
        await pass_time(200)
        assert len(await it.occupied_nodes()) == 1
    rights = {*granted(CLUSTER_PERMISSIONS), *granted(NAMESPACE_PERMISSIONS)}
    assert noted <= rights, sorted(noted - rights)
    assert {("create", "", "pods", "eviction"), ("create", "", "pods", "binding")} <= noted


def test_get_is_granted_only_for_kinds_that_are_read_singly() -> None:
    gets = {resource for verb, _, resource, _ in granted(CLUSTER_PERMISSIONS) if verb == "get"}
    assert gets == {"pods", "nodes", "namespaces", "reservations", "queues", "podgroups", "podmigrationjobs"}
