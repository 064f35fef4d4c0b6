"""The four kinds Restow brings: every server accepts their definitions and the examples."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restow.model.crds import custom_resource_definitions
from restow.model.wire import read_documents
from tests.conformance.server import Document, Server

EXAMPLES = {path.name: path.read_bytes() for path in sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))}


@pytest.fixture
async def installed(server: Server) -> AsyncIterator[Server]:
    """The server with our definitions, which stay: other tests may be using them."""
    for document in custom_resource_definitions():
        await server.apply("customresourcedefinitions", document, "restow", force="true")
        await server.learn(document)
    yield server


@pytest.mark.parametrize(
    "document", custom_resource_definitions(), ids=lambda document: str(document["metadata"]["name"])
)
async def test_a_definition_is_accepted_when_strict(server: Server, document: Document) -> None:
    await server.create("customresourcedefinitions", probe(document), fieldValidation="Strict", dryRun="All")


def probe(document: Document) -> Document:
    """The same definition under another group, so that it is new wherever the real one is installed."""
    group = f"probe.{document['spec']['group']}"
    spec = {**document["spec"], "group": group}
    annotations = {"api-approved.kubernetes.io": "unapproved, a test"}
    return {
        **document,
        "metadata": {"name": f"{spec['names']['plural']}.{group}", "annotations": annotations},
        "spec": spec,
    }


@pytest.mark.parametrize("name", EXAMPLES)
async def test_an_example_applies(installed: Server, name: str) -> None:
    for document in read_documents(EXAMPLES[name], name):
        plural = plural_of(document)
        meta = {key: value for key, value in document["metadata"].items() if key != "namespace"}
        await installed.apply(plural, {**document, "metadata": meta}, "someone", fieldValidation="Strict", dryRun="All")


def plural_of(document: Document) -> str:
    for known in custom_resource_definitions():
        if (known["spec"]["names"]["kind"], known["spec"]["group"]) == (
            document["kind"],
            document["apiVersion"].split("/")[0],
        ):
            return str(known["metadata"]["name"])
    return f"{document['kind'].lower()}s"
