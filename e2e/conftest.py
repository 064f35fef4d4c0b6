"""Starts one real control plane for the whole test run; the conformance suite then runs on it, too."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e.build import BuildError
from e2e.cluster import clear, namespace_document
from e2e.controlplane import ControlPlane
from e2e.process import ProcessDied
from e2e.restow_process import installed
from restow.adapters.clock import SystemClock
from restow.adapters.kubernetes import KubernetesApi, load_kubeconfig
from restow.client.verbs import Client
from restow.model.kinds import NAMESPACE

_PLANE = pytest.StashKey[ControlPlane]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: takes minutes; only `make e2e-full` runs it")
    if config.option.collectonly:
        return
    try:
        plane = ControlPlane()
        config.stash[_PLANE] = plane
        plane.start()
    except (BuildError, ProcessDied) as error:
        pytest.exit(str(error), returncode=1)
    os.environ["RESTOW_E2E_KUBECONFIG"] = str(plane.kubeconfig)  # read by tests/conformance/conftest.py


def pytest_unconfigure(config: pytest.Config) -> None:
    plane = config.stash.get(_PLANE, None)
    if plane is not None:
        plane.stop()


@pytest.fixture
def plane(pytestconfig: pytest.Config) -> ControlPlane:
    plane = pytestconfig.stash[_PLANE]
    plane.check()
    return plane


@pytest.fixture
def account(plane: ControlPlane, tmp_path: Path) -> Path:
    """The kubeconfig of a user with exactly the rights that `restow install` gives to Restow."""
    return installed(plane, tmp_path)


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubernetesApi]:
    async with KubernetesApi(load_kubeconfig(plane.kubeconfig), clock=SystemClock()) as api:
        yield api


@pytest.fixture
def client(api: KubernetesApi) -> Client:
    return Client(api, manager="restow-e2e")


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace of this test alone. Afterwards it goes with everything in it, and with nodes, queues and roles that
    have its name in theirs, however the test ended."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACE, namespace_document(name))
    yield name
    await clear(client, name)
