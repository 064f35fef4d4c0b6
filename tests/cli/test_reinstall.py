"""`restow install` where Restow is installed already: the configuration is kept unless --config replaces it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner, Result

from restow.adapters.rest import serve
from restow.adapters.rest.kubeconfig import write_kubeconfig
from restow.cli import restow
from restow.model.kinds import CONFIG_MAP
from restow.ports import APPLY_PATCH, Request
from restow.running import embedded_cluster
from tests.cli.snapshot_documents import documents_in


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[tuple[embedded_cluster.EmbeddedCluster, Path]]:
    async with embedded_cluster.embedded_cluster(nodes=0, rng=random.Random(1)) as cluster:
        server = await serve(cluster.api)
        try:
            yield cluster, write_kubeconfig(tmp_path / "kubeconfig", server.url)
        finally:
            await server.close()


async def install(kubeconfig: Path, *more: str) -> Result:
    arguments = ["install", "--kubeconfig", str(kubeconfig), *more]
    return await asyncio.to_thread(CliRunner().invoke, restow, arguments)


def configuration(printed: str) -> Any:
    return next(one["data"]["restow.yaml"] for one in documents_in(printed) if "restow.yaml" in one.get("data", {}))


async def apply(cluster: embedded_cluster.EmbeddedCluster, document: dict[str, Any]) -> None:
    """Apply a document as `kubectl apply --server-side` does."""
    named = (document["apiVersion"], document["kind"])
    [served] = [one for one in cluster.api.resources() if (one.api_version, one.kind) == named]
    request = Request(
        verb="patch",
        resource=served.resource,
        namespace=document["metadata"].get("namespace"),
        name=document["metadata"]["name"],
        query={"fieldManager": "kubectl"},
        content_type=APPLY_PATCH,
        body=msgspec.json.encode(document),
    )
    await cluster.api.call(request)


async def test_installed_configuration_is_kept_and_apply_has_no_conflicts(tmp_path: Path) -> None:
    async with served(tmp_path) as (cluster, kubeconfig):
        done = await install(kubeconfig)
        for document in documents_in(done.stdout):
            await apply(cluster, document)
        kept = await cluster.client.get(CONFIG_MAP, "restow", "restow-system")
    assert configuration(done.stdout) == (kept.data or {})["restow.yaml"]
    assert "default-scheduler" in configuration(done.stdout)
    assert done.stderr == "restow: keeping the configuration that is installed in restow-system; --config replaces it\n"


async def test_config_option_replaces_the_installed_configuration(tmp_path: Path) -> None:
    (tmp_path / "restow.yaml").write_text("migration: {evictQPS: 3}\n")
    async with served(tmp_path) as (_, kubeconfig):
        done = await install(kubeconfig, "--config", str(tmp_path / "restow.yaml"))
    assert (configuration(done.stdout), done.stderr) == ("migration: {evictQPS: 3}\n", "")


async def test_invalid_installed_configuration_is_an_error(tmp_path: Path) -> None:
    async with served(tmp_path) as (cluster, kubeconfig):
        wrong = {"data": {"restow.yaml": "migration: {evictQPS: none}\n"}}
        await cluster.client.patch(CONFIG_MAP, "restow", wrong, "restow-system")
        done = await install(kubeconfig)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "restow.yaml: migration.evictQPS: expected a number above 0" in done.stderr
